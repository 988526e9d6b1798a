package throttle

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/duration"
	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/throttle/quiet"
)

const (
	// MaxEntries bounds a rate's count, and its count per second on average; the slots of a
	// category (twice as many for all categories of a user); and the entries of a Timeline. A
	// call may read all entries of a user, and blocks Redis meanwhile.
	MaxEntries = 1000
	// MaxRates is the largest number of rates of a Policy. Each claim reads one admission per
	// rate. Eight rates are enough for one per unit from a second to a month.
	MaxRates = 8
)

// Rate allows at most Count notifications in any window of length Period. The zero value is not a
// valid rate.
type Rate struct {
	Count  int           // 1 or more
	Period time.Duration // positive, whole microseconds
}

// ParseRate reads a rate written COUNT/PERIOD, such as "10/1m" or "100/24h".
// PERIOD is a Go duration, which may begin with days: "7d", "1d12h".
func ParseRate(s string) (Rate, error) {
	count, period, found := strings.Cut(s, "/")
	if !found {
		return Rate{}, rateError(s, "there is no slash")
	}
	if strings.HasPrefix(count, "-") && len(count) > 1 && strings.Trim(count[1:], "0123456789") == "" {
		return Rate{}, rateError(s, "the count is negative")
	}
	if count == "" || strings.Trim(count, "0123456789") != "" {
		return Rate{}, rateError(s, "the count is not a whole number")
	}
	n, err := strconv.Atoi(count)
	if err != nil {
		return Rate{}, rateError(s, "the count is too large")
	}
	d, err := duration.Parse(period)
	if err != nil {
		return Rate{}, rateError(s, "the period is not a duration")
	}
	r := Rate{Count: n, Period: d}
	if fault := r.fault(); fault != "" {
		return Rate{}, rateError(s, fault)
	}
	return r, nil
}

// Validate returns an error if r is invalid.
func (r Rate) Validate() error {
	if fault := r.fault(); fault != "" {
		return rateError(r.String(), fault)
	}
	return nil
}

func rateError(s, fault string) error {
	if len(s) > 40 { // longer than any valid rate
		s = s[:40] + "…"
	}
	return fmt.Errorf("rate %q: %s; want COUNT/PERIOD such as 10/1m, "+
		"COUNT at least 1, PERIOD positive in whole microseconds", s, fault)
}

// fault describes why r is invalid; "" if it is valid.
func (r Rate) fault() string {
	switch {
	case r.Count < 1:
		return "the count is not positive"
	case r.Period <= 0:
		return "the period is not positive"
	case r.Period%time.Microsecond != 0:
		return "the period is not in whole microseconds"
	}
	return ""
}

// String writes r as ParseRate reads it.
func (r Rate) String() string {
	return strconv.Itoa(r.Count) + "/" + FormatPeriod(r.Period)
}

// FormatPeriod writes d without the trailing zero units of time.Duration: 24h, not 24h0m0s.
func FormatPeriod(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText writes r as String does.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads r as ParseRate does.
func (r *Rate) UnmarshalText(text []byte) error {
	parsed, err := ParseRate(string(text))
	if err != nil {
		return err
	}
	*r = parsed
	return nil
}

// Policy limits the notifications that one user receives in one scope: a minimum gap between any
// two, and any number of rates that all apply. The zero value limits nothing.
type Policy struct {
	// The minimum time between any two, in whole microseconds; 0 for none.
	MinGap time.Duration `yaml:"min_gap" default:"0s"`
	// At most COUNT in any PERIOD, as `COUNT/PERIOD`, with COUNT up to 1,000. At most 8 rates, of
	// different periods.
	//
	// The bounds are MaxEntries and MaxRates.
	Rates []Rate `yaml:"rates"`
	// Takes a category out of all limits: nothing is checked or charged.
	//
	// It excludes MinGap, Rates and Quiet.
	Exempt bool `yaml:"exempt" default:"false"`
	// Windows in which only `critical` notifications and exempt categories are sent, in the user's
	// time zone: `22:00-08:00` of every day, or with the days on which it begins, as in
	// `Sa-Su 22:00-10:00`. Held notifications are sent afterwards, at the limits' rate. A category's
	// windows replace the default's; `[]` is none.
	//
	// nil inherits the quiet hours, and an empty value means that there are none. The slice must
	// not be modified.
	Quiet quiet.Hours `yaml:"quiet_hours"`
	// Night is the zone and the spread of the quiet hours. throttle/limits uses that of
	// limits.default for all policies.
	Night quiet.Night `yaml:"-"`
}

// Faults are all errors of a policy, by the configuration keys of its fields.
type Faults = fielderrors.Faults

// Unlimited reports whether p has neither a gap, nor a rate, nor quiet hours.
func (p Policy) Unlimited() bool { return !p.paces() && len(p.Quiet) == 0 }

// IsSet reports whether p limits anything or turns quiet hours off.
func (p Policy) IsSet() bool { return !p.Unlimited() || p.Quiet != nil }

// paces reports whether p has a gap or a rate.
func (p Policy) paces() bool { return p.MinGap != 0 || len(p.Rates) > 0 }

// String returns a readable form of p, such as "500ms apart, 10/1m".
func (p Policy) String() string {
	if p.Exempt {
		return "exempt"
	}
	var parts []string
	if p.MinGap > 0 {
		parts = append(parts, FormatPeriod(p.MinGap)+" apart")
	}
	for _, r := range p.Rates {
		parts = append(parts, r.String())
	}
	if len(p.Quiet) > 0 {
		parts = append(parts, "quiet "+p.Quiet.String())
	} else if p.Quiet != nil {
		parts = append(parts, "no quiet hours")
	}
	return cmp.Or(strings.Join(parts, ", "), "no limit")
}

// Validate returns all errors of p, as Faults. No gap or period may exceed horizon, the length of
// a timeline. Validate also rejects well-formed limits that are certainly mistakes: a count above
// MaxEntries, in total or per second on average, and a gap longer than every period. Warnings
// describes limits that are odd but valid.
func (p Policy) Validate(horizon time.Duration) error {
	var all Faults
	if p.Exempt && p.IsSet() {
		all.Add("exempt", "excludes min_gap, rates and quiet_hours: remove one or the other")
	}
	if err := p.Quiet.Validate(); err != nil {
		all.Add("quiet_hours", "%v", err)
	}
	switch {
	case p.MinGap < 0:
		all.Add("min_gap", "%s is negative; want 0 or a positive duration", FormatPeriod(p.MinGap))
	case p.MinGap%time.Microsecond != 0:
		all.Add("min_gap", "%s is not in whole microseconds", FormatPeriod(p.MinGap))
	case p.MinGap > horizon:
		all.Add("min_gap", "%s is longer than the horizon, %s", FormatPeriod(p.MinGap), FormatPeriod(horizon))
	}
	if len(p.Rates) > MaxRates {
		all.Add("rates", "there are %d; at most %d are allowed", len(p.Rates), MaxRates)
		return all.Err()
	}
	seen := make(map[time.Duration]Rate, len(p.Rates))
	for _, r := range p.Rates {
		if err := r.Validate(); err != nil {
			all.Add("rates", "%v", err)
			continue
		}
		if r.Period > horizon {
			all.Add("rates", "%s has a longer period than the horizon, %s", r, FormatPeriod(horizon))
		}
		if first, ok := seen[r.Period]; ok {
			all.Add("rates", "%s and %s have the same period: keep one", first, r)
		}
		seen[r.Period] = r
	}
	if len(all) > 0 {
		return all.Err()
	}
	// well formed, but certainly a mistake
	if p.MinGap > 0 && tooMany(1, p.MinGap) {
		all.Add("min_gap", "%s is shorter than %s: nobody receives %d a second; leave it out", FormatPeriod(p.MinGap), time.Second/MaxEntries, MaxEntries)
	}
	longest := time.Duration(0)
	for _, r := range p.Rates {
		if tooMany(r.Count, r.Period) {
			all.Add("rates", "%s allows more than %d a second: nobody receives as much; lower it or leave it out", r, MaxEntries)
		} else if fault := r.tooLarge(); fault != "" {
			all.Add("rates", "%s", fault)
		}
		longest = max(longest, r.Period)
	}
	if longest > 0 && p.MinGap > longest {
		all.Add("min_gap", "%s is longer than every rate's period, so that no rate says anything: shorten it or leave the rates out", FormatPeriod(p.MinGap))
	}
	return all.Err()
}

// tooLarge describes a count of r that is too large for one user; "" for none.
func (r Rate) tooLarge() string {
	if r.Count <= MaxEntries {
		return ""
	}
	return fmt.Sprintf("%s counts more than %d, the most of one user: give a smaller count in a shorter period, or leave it out", r, MaxEntries)
}

// tooMany reports whether count in the period is more than MaxEntries per second, which is surely
// a typing error.
func tooMany(count int, period time.Duration) bool {
	return float64(count) > MaxEntries*period.Seconds()
}

// most returns the largest number of admissions that r allows in a window of the period.
func (r Rate) most(period time.Duration) int {
	return int((period+r.Period-1)/r.Period) * r.Count
}

// implies reports whether any sequence that r allows is also allowed by other.
func (r Rate) implies(other Rate) bool { return r.most(other.Period) <= other.Count }

// asRates returns the policy's limits as rates, first the gap if there is one.
func (p Policy) asRates() []Rate {
	var all []Rate
	if p.MinGap > 0 {
		all = append(all, Rate{1, p.MinGap})
	}
	return append(all, p.Rates...)
}

// Raises reports whether the policy to may allow something that from forbids, so that the change
// may move slots earlier.
func Raises(from, to Policy) bool {
	if from.Exempt || to.Exempt {
		return to.Exempt && !from.Exempt
	}
	return slices.ContainsFunc(from.asRates(), func(r Rate) bool {
		return !slices.ContainsFunc(to.asRates(), func(by Rate) bool { return by.implies(r) })
	}) || shortensNight(from, to)
}

// shortensNight reports whether the policy to may allow a time that is quiet under from. A policy
// with nil Quiet inherits the general policy's quiet hours, which are unknown here.
func shortensNight(from, to Policy) bool {
	switch {
	case from.Quiet == nil:
		return to.Quiet != nil
	case len(from.Quiet) == 0:
		return false
	}
	return from.Night != to.Night ||
		slices.ContainsFunc(from.Quiet, func(w quiet.Window) bool { return !slices.Contains(to.Quiet, w) })
}

// Warnings describes limits of a valid policy that are odd: a limit without effect beside a
// stricter one, and quiet hours that leave little time. Each warning begins with the limit's name.
func Warnings(p Policy) []string {
	var odd []string
	for i, r := range p.Rates {
		if gap := (Rate{1, p.MinGap}); p.MinGap > 0 && gap.implies(r) {
			odd = append(odd, fmt.Sprintf("rate %s never decides: min_gap %s alone allows at most %d in %s",
				r, FormatPeriod(p.MinGap), gap.most(r.Period), FormatPeriod(r.Period)))
			continue
		}
		for j, by := range p.Rates {
			if i != j && by.implies(r) {
				odd = append(odd, fmt.Sprintf("rate %s never decides: rate %s alone allows at most %d in %s",
					r, by, by.most(r.Period), FormatPeriod(r.Period)))
				break
			}
		}
	}
	for _, r := range p.Rates {
		if gap := (Rate{1, p.MinGap}); p.MinGap > 0 && r.implies(gap) && !gap.implies(r) {
			odd = append(odd, fmt.Sprintf("min_gap %s never decides: rate %s alone keeps them as far apart", FormatPeriod(p.MinGap), r))
			break
		}
	}
	if open := p.Quiet.LongestOpen(); len(p.Quiet) > 0 && open < time.Hour {
		odd = append(odd, fmt.Sprintf("quiet_hours leave %s at most to send in", FormatPeriod(open)))
	} else if p.MinGap > open && len(p.Quiet) > 0 {
		odd = append(odd, fmt.Sprintf("min_gap %s is longer than quiet_hours are ever open for: %s", FormatPeriod(p.MinGap), FormatPeriod(open)))
	}
	return odd
}
