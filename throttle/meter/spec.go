package meter

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/base/faults"
	"github.com/pushpace/pushpace/throttle"
)

// An Algorithm is how a meter counts, by its name in the configuration.
type Algorithm string

// The algorithms. TokenBucket is what an empty one stands for.
const (
	TokenBucket   Algorithm = "token_bucket"
	LeakyBucket   Algorithm = "leaky_bucket"
	FixedWindow   Algorithm = "fixed_window"
	SlidingWindow Algorithm = "sliding_window"
	// PublishedWindow is the sliding window as it is mostly described: around the
	// border of a cell up to twice the count passes in a period. It is for
	// comparisons, and no valid spec has it.
	PublishedWindow Algorithm = "published_window"
)

// Algorithms are those that a valid spec may have.
var Algorithms = []Algorithm{TokenBucket, LeakyBucket, FixedWindow, SlidingWindow}

// A Spec is what a meter allows. It is a value, and may change from one Take to the
// next: a changed one neither refills what is used nor leaves a debt beyond its burst.
// From a bucket to a window, or back, it begins anew.
type Spec struct {
	Algorithm Algorithm
	// Rates are what is allowed: one, or several at once for the windows, of which all
	// allow or none is charged.
	Rates []throttle.Rate
	// Burst is how many units a bucket holds: of a leaky one how many may wait, its
	// outflow is even. 0 is for the rate's count; for a promise it is the larger of 100
	// and a hundredth of the count, and at most a tenth of it.
	Burst int
	// Cells is of how many parts a sliding window is, 0 for 10.
	Cells int
	// Ramp is how long a bucket takes from silence to its rate, 0 for none.
	Ramp time.Duration
	// Life is within which time of the ask a unit is used or lapses; more than 0
	// turns the rate into a promise: at most Count units are used in any Period, by
	// any number of workers.
	Life time.Duration
}

// The lives that Promise gives. A shorter one would not outlast a round trip and the way to
// the send. At 250 ms a busy pool makes 4 to 8 requests a second: fewer would save nothing.
const (
	shortestLife = 10 * time.Millisecond
	longestLife  = 250 * time.Millisecond
)

const (
	// defaultCells has nobody wait for longer than a tenth of the period too long.
	defaultCells = 10
	// MaxCells is the largest number of cells that a sliding window may have: a wait that is too long
	// by a hundredth of the period at most. The key and the time of a take grow with it.
	MaxCells = 100
	// exact bounds what is counted, and may be owed of a bucket; of a cold one up to twice as much.
	// Lua's numbers are whole to 1 << 53.
	exact = 1 << 51
)

// Promise returns the spec with a Life, where it has none: a hundredth of the period,
// from 10 to 250 ms.
func (s Spec) Promise() Spec {
	if s.Life == 0 && len(s.Rates) > 0 {
		s.Life = min(max(s.Rates[0].Period/100, shortestLife), longestLife).Truncate(time.Microsecond)
	}
	return s
}

// windowed reports whether the spec counts in cells.
func (s Spec) windowed() bool {
	return s.Algorithm == FixedWindow || s.Algorithm == SlidingWindow || s.Algorithm == PublishedWindow
}

// AtOnce returns how many units may be there at the same instant.
func (s Spec) AtOnce() int {
	if !s.windowed() {
		burst, _ := s.sizes()
		return burst
	}
	return slices.MinFunc(s.Rates, func(a, b throttle.Rate) int { return cmp.Compare(a.Count, b.Count) }).Count
}

// Most returns how many units may pass in any window of that length: of a promise
// how many may be used, of units taken ahead how many are covered. Of several rates
// it is the least that one of them says.
func (s Spec) Most(window time.Duration) int {
	if window <= 0 {
		return 0
	}
	reach := (window - 1).Microseconds() // from the first of them to the last
	if s.Life > 0 {
		reach += s.Life.Microseconds() + 1
	}
	if !s.windowed() {
		return s.bucket().most(reach)
	}
	rates := s.cells()
	most := rates[0].most(reach)
	for _, r := range rates {
		most = min(most, r.most(reach))
	}
	return most
}

// Validate reports all that is wrong with the spec, as throttle.Faults.
func (s Spec) Validate() error {
	if s.Algorithm != "" && !slices.Contains(Algorithms, s.Algorithm) {
		return faults.New("algorithm", "%q is none of %v", s.Algorithm, Algorithms)
	}
	if all := s.faults(); len(all) > 0 || s.Life == 0 || s.windowed() {
		return all.Err()
	}
	// what fills a bucket of a promise is what its burst leaves of the count
	if burst, _ := s.sizes(); 2*(burst-1) > s.Rates[0].Count {
		return faults.New("burst", "%d leaves %d of %s for the time after it: at most %d, and small is better", burst, s.Rates[0].Count-burst, s.Rates[0], s.Rates[0].Count/2+1)
	}
	return nil
}

func (s Spec) faults() (all throttle.Faults) {
	if len(s.Rates) == 0 {
		all.Add("rates", "there is none")
	}
	for i, r := range s.Rates {
		if err := r.Validate(); err != nil {
			all.Add("rates", "%v", err)
		} else if r.Count > exact {
			all.Add("rates", "%s has a larger count than can be counted", r)
		}
		for _, other := range s.Rates[:i] {
			if r.Period == other.Period {
				all.Add("rates", "%s and %s have the same period: keep one", other, r)
			}
		}
	}
	for _, d := range []struct {
		name   string
		length time.Duration
	}{{"ramp", s.Ramp}, {"life", s.Life}} {
		if d.length < 0 || d.length%time.Microsecond != 0 || d.length > 24*time.Hour {
			all.Add(d.name, "%s: want 0 to 24h in whole microseconds", throttle.FormatPeriod(d.length))
		}
	}
	if s.Burst < 0 {
		all.Add("burst", "%d is negative", s.Burst)
	}
	if s.windowed() {
		s.windowFaults(&all)
	} else {
		s.bucketFaults(&all)
	}
	if !s.windowed() && len(all) == 0 {
		s.exactFault(&all)
	}
	return all
}

func (s Spec) windowFaults(all *throttle.Faults) {
	if s.Burst != 0 {
		all.Add("burst", "%s has none, it allows its count at once", s.Algorithm)
	}
	if s.Ramp != 0 {
		all.Add("ramp", "%s has none; token_bucket has", s.Algorithm)
	}
	if len(s.Rates) > throttle.MaxRates {
		all.Add("rates", "there are %d; at most %d are allowed", len(s.Rates), throttle.MaxRates)
	}
	switch {
	case s.Algorithm != FixedWindow && (s.Cells < 0 || s.Cells > MaxCells):
		all.Add("cells", "%d: want 1 to %d", s.Cells, MaxCells)
	case s.Algorithm == FixedWindow && s.Cells != 0:
		all.Add("cells", "fixed_window has none; sliding_window has")
	case s.Algorithm == FixedWindow && s.Life != 0:
		all.Add("algorithm", "fixed_window lets twice its count pass around the end of a window, and so keeps no promise: "+
			"take token_bucket or sliding_window")
	}
}

func (s Spec) bucketFaults(all *throttle.Faults) {
	if len(s.Rates) > 1 {
		all.Add("rates", "there are %d; a bucket has one: take fixed_window or sliding_window for several at once", len(s.Rates))
	}
	if s.Cells != 0 {
		all.Add("cells", "a bucket has none; sliding_window has")
	}
	if s.Life > 0 && s.Algorithm != LeakyBucket && len(s.Rates) > 0 && s.Burst > s.Rates[0].Count {
		all.Add("burst", "%d is more than %s allows in its period: lower it", s.Burst, s.Rates[0])
	}
}

// exactFault is of a bucket that cannot be counted without losing fractions.
func (s Spec) exactFault(all *throttle.Faults) {
	b := s.bucket()
	largest := int64(exact)
	if s.Ramp > 0 {
		largest /= coldest
	}
	if size := int64(b.size); size > largest/b.unit {
		all.Add("burst", "%d is too large to be counted exactly at %s: at most %d, or a count that divides the period", size, s.Rates[0], largest/b.unit)
	}
}

// check reports what is wrong with the spec or the ask.
func (s Spec) check(key string, a Ask) error {
	if err := s.faults().Err(); err != nil {
		return fmt.Errorf("meter %s: %w", key, err)
	}
	if a.Least < 0 || a.Keep < 0 || a.Ahead < 0 || a.Most > 0 && a.Least > a.Most {
		return fmt.Errorf("meter %s: ask for %d to %d units, keep %d, %s ahead: want 0 ≤ least ≤ most, and nothing below 0", key, a.Least, a.Most, a.Keep, a.Ahead)
	}
	if a.Most >= 0 && !s.has(a) {
		return fmt.Errorf("meter %s: %d units where %d stay for others, of %s: more at once than there can ever be", key, max(1, a.Least), a.Keep, s.Rates[0])
	}
	return nil
}

// has reports whether there may ever be as many units as are asked for.
func (s Spec) has(a Ask) bool {
	least := max(1, a.Least)
	if s.windowed() {
		return least <= s.AtOnce()-a.Keep
	}
	b := s.bucket()
	return int64(least)*b.unit <= b.limit(a)
}

// lapse reports whether the ask gives back units of a promise: these lapse. Given back
// they might be there twice, for others and as what has drained meanwhile.
func (s Spec) lapse(a Ask) bool { return a.Most < 0 && s.Life > 0 }
