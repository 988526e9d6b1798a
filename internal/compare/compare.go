// Package compare replays arrivals through limiters, in virtual time and in memory:
// what another limit would have done to last week's traffic, and what each one lets
// through at worst.
package compare

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
)

// The algorithms besides the meter's. The published ones are as others describe
// them, faults included.
const (
	Rolling           meter.Algorithm = "rolling"
	PublishedRolling  meter.Algorithm = "published_rolling"
	PublishedCounters meter.Algorithm = "published_counters"
	PublishedBucket   meter.Algorithm = "published_bucket"
	WeightedWindow    meter.Algorithm = "weighted_window"
)

// Algorithms are all that can be compared.
var Algorithms = slices.Concat([]meter.Algorithm{Rolling}, meter.Algorithms,
	[]meter.Algorithm{PublishedRolling, meter.PublishedWindow, PublishedCounters, PublishedBucket, WeightedWindow})

// A spec is a limit, as the configuration writes those of users and quotas.
type spec struct {
	Algorithm meter.Algorithm `yaml:"algorithm"`
	MinGap    time.Duration   `yaml:"min_gap"`
	Rate      *throttle.Rate  `yaml:"rate"`
	Rates     []throttle.Rate `yaml:"rates"`
	Burst     int             `yaml:"burst"`
	Cells     int             `yaml:"cells"`
	Ramp      time.Duration   `yaml:"ramp"`
	// Quiet are none of a limit that is compared: arrivals of the past have no zone.
	Quiet []string `yaml:"quiet_hours"`
	// Promise is whether the rate holds in any period, as that of a quota does.
	Promise bool `yaml:"promise"`
}

// A Contestant is a limit under a name.
type Contestant struct {
	Name string
	spec spec
}

var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.+-]{0,39}$`)

// Parse reads contestants written NAME=SPEC, where SPEC is a limit as the configuration
// writes it: with rate a quota's, a token bucket unless algorithm says otherwise; else
// a user's, the rolling window.
func Parse(texts []string) ([]Contestant, error) {
	if len(texts) > maxContestants {
		return nil, fmt.Errorf("there are %d; at most %d are compared", len(texts), maxContestants)
	}
	var all []Contestant
	for _, text := range texts {
		name, spec, found := strings.Cut(text, "=")
		if !found || !names.MatchString(name) {
			return nil, errors.New("want NAME=SPEC, such as now='{rates: [10/1m]}', with up to 40 letters, digits and _ . + - in NAME")
		}
		if slices.ContainsFunc(all, func(c Contestant) bool { return c.Name == name }) {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		c := Contestant{Name: name}
		if err := c.spec.parse(spec); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, c)
	}
	return all, nil
}

// maxContestants is how many limits are compared at most.
const maxContestants = 20

func (s *spec) parse(text string) error {
	if err := yaml.UnmarshalWithOptions([]byte(text), s, yaml.Strict()); err != nil {
		if fault := yaml.Error(nil); errors.As(err, &fault) {
			return errors.New(fault.GetMessage())
		}
		return err
	}
	return s.complete()
}

// complete fills in what is left out, and reports what is wrong.
func (s *spec) complete() error {
	if s.Quiet != nil {
		return errors.New("compare knows no quiet_hours: leave them out; limits set --dry-run shows what they would do")
	}
	if s.Rate != nil && s.Rates != nil {
		return errors.New("rate excludes rates: remove one or the other")
	}
	if s.Rate != nil {
		s.Rates = []throttle.Rate{*s.Rate}
	}
	if s.Algorithm == "" {
		if s.Algorithm = Rolling; s.Rate != nil {
			s.Algorithm = meter.TokenBucket
		}
	}
	return s.validate()
}

func (s *spec) validate() error {
	switch {
	case !slices.Contains(Algorithms, s.Algorithm):
		return fmt.Errorf("algorithm %q: want one of %v", s.Algorithm, Algorithms)
	case s.metered():
		if s.MinGap != 0 {
			return fmt.Errorf("min_gap: %s has none; rolling has", s.Algorithm)
		}
		if s.Algorithm == meter.PublishedWindow { // valid where a sliding one is
			sliding := s.meter()
			sliding.Algorithm = meter.SlidingWindow
			return sliding.Validate()
		}
		return s.meter().Validate()
	case s.Cells != 0 || s.Ramp != 0 || s.Promise || s.Burst != 0 && s.Algorithm != PublishedBucket:
		return fmt.Errorf("%s has rates alone: remove burst, cells, ramp and promise", s.Algorithm)
	}
	rolls := s.Algorithm == Rolling || s.Algorithm == PublishedRolling
	switch {
	case s.MinGap != 0 && !rolls:
		return fmt.Errorf("min_gap: %s has none; rolling has", s.Algorithm)
	case s.MinGap < 0 || s.MinGap%time.Microsecond != 0:
		return fmt.Errorf("min_gap %s: want 0 or a positive duration in whole microseconds", s.MinGap)
	case s.Burst < 0 || s.Burst > throttle.MaxCount:
		return fmt.Errorf("burst %d: want 1 to %d", s.Burst, throttle.MaxCount)
	case len(s.Rates) > throttle.MaxRates:
		return fmt.Errorf("there are %d rates; at most %d are allowed", len(s.Rates), throttle.MaxRates)
	case len(s.Rates) > 1 && s.Algorithm != Rolling && s.Algorithm != PublishedCounters:
		return fmt.Errorf("%s has one rate", s.Algorithm)
	case len(s.Rates) == 0 && (s.Algorithm != Rolling || s.MinGap == 0):
		return errors.New("there is no rate")
	}
	return nil
}

// metered reports whether a meter counts.
func (s *spec) metered() bool {
	return s.Algorithm == meter.PublishedWindow || slices.Contains(meter.Algorithms, s.Algorithm)
}

// meter returns the limit as a meter takes it.
func (s *spec) meter() meter.Spec {
	m := meter.Spec{Algorithm: s.Algorithm, Rates: s.Rates, Burst: s.Burst, Cells: s.Cells, Ramp: s.Ramp}
	if s.Promise {
		m = m.Promise()
	}
	return m
}

// cells is of how many parts a period is counted.
func (s *spec) cells() int {
	if s.Algorithm == meter.SlidingWindow || s.Algorithm == meter.PublishedWindow {
		return cmp.Or(s.Cells, 10)
	}
	return 1
}

// Limit says what the contestant allows, in a few words.
func (c *Contestant) Limit() string {
	words := []string{string(c.spec.Algorithm)}
	if c.spec.Promise {
		words = append(words, "promised")
	}
	if c.spec.MinGap > 0 {
		words = append(words, throttle.FormatPeriod(c.spec.MinGap)+" apart")
	}
	for _, r := range c.spec.Rates {
		words = append(words, r.String())
	}
	return strings.Join(words, " ")
}

// Default are all algorithms, at 10 a second.
func Default() []Contestant {
	rate := throttle.Rate{Count: 600, Period: time.Minute}
	named := func(name string, s spec) Contestant {
		s.Rates = []throttle.Rate{rate}
		return Contestant{name, s}
	}
	all := []Contestant{named("quota", spec{Algorithm: meter.TokenBucket, Promise: true})}
	for _, algorithm := range Algorithms {
		all = append(all, named(string(algorithm), spec{Algorithm: algorithm}))
	}
	all[0], all[1] = all[1], all[0] // the rolling window first
	return all
}
