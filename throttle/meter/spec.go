package meter

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/throttle"
)

// An Algorithm is the way a meter counts, by its name in the configuration.
type Algorithm string

// The algorithms. An empty Algorithm means TokenBucket.
const (
	TokenBucket   Algorithm = "token_bucket"
	LeakyBucket   Algorithm = "leaky_bucket"
	FixedWindow   Algorithm = "fixed_window"
	SlidingWindow Algorithm = "sliding_window"
	// PublishedWindow is the sliding window in its common form: around the border of a cell, up
	// to twice the count passes in a period. It is for comparisons; no valid spec has it.
	PublishedWindow Algorithm = "published_window"
)

// Algorithms are those that a valid spec may have.
var Algorithms = []Algorithm{TokenBucket, LeakyBucket, FixedWindow, SlidingWindow}

// A Spec is the limit of a meter. It may change from one Take to the next: a change neither
// refills used units nor leaves a debt above the new burst. After a change between a bucket and a
// window no unit counts as used.
type Spec struct {
	Algorithm Algorithm
	// Rates are the limits: one rate for a bucket, one or more for a window. All must allow a Take;
	// otherwise none is charged.
	Rates []throttle.Rate
	// Burst is the number of units that a bucket holds. For a leaky bucket, with its even
	// outflow, it is the number of units that may wait. 0 means the rate's count; for a spec with
	// Life the larger of 100 and 1/100 of the count, but at most a tenth of the count.
	Burst int
	// Cells is the number of parts of a sliding window; 0 for 10.
	Cells int
	// Ramp is the time in which an idle bucket reaches its full rate; 0 for none.
	Ramp time.Duration
	// Life is the time, from its request, within which a unit is used or expires. If Life is
	// positive, the spec is a promise: any number of workers together use at most Count units in
	// any Period.
	Life time.Duration
}

// The bounds of Promise's Life. A unit with a shorter life could expire before its push is sent.
// At 250 ms a busy pool makes 4 to 8 requests a second: fewer requests would save nothing.
const (
	shortestLife = 10 * time.Millisecond
	longestLife  = 250 * time.Millisecond
)

const (
	// With defaultCells, a Take waits at most a tenth of the period too long.
	defaultCells = 10
	// MaxCells is the largest number of cells of a sliding window: a Take then waits at most
	// 1/100 of the period too long. The size of the key and the time of a Take grow with the
	// cells.
	MaxCells = 100
	// exact bounds a count, and the debt of a bucket; a cold bucket's debt may be twice as large.
	// Lua's numbers are exact up to 1 << 53.
	exact = 1 << 51
)

// Promise returns the spec with a Life if it has none: 1/100 of the period, from 10 to 250 ms.
func (s Spec) Promise() Spec {
	if s.Life == 0 && len(s.Rates) > 0 {
		s.Life = min(max(s.Rates[0].Period/100, shortestLife), longestLife).Truncate(time.Microsecond)
	}
	return s
}

// isWindow reports whether the spec counts in cells.
func (s Spec) isWindow() bool {
	return s.Algorithm == FixedWindow || s.Algorithm == SlidingWindow || s.Algorithm == PublishedWindow
}

// AtOnce returns the largest number of units that one Take can get without Ask.Ahead.
func (s Spec) AtOnce() int {
	if !s.isWindow() {
		burst, _ := s.sizes()
		return burst
	}
	return slices.MinFunc(s.Rates, func(a, b throttle.Rate) int { return cmp.Compare(a.Count, b.Count) }).Count
}

// Most returns the largest number of units that can fall in any window of that length: for a
// promise the number used, otherwise the number covered. Of several rates the strictest counts.
func (s Spec) Most(window time.Duration) int {
	if window <= 0 {
		return 0
	}
	reach := (window - 1).Microseconds() // from the first unit to the last
	if s.Life > 0 {
		reach += s.Life.Microseconds() + 1
	}
	if !s.isWindow() {
		return s.bucket().most(reach)
	}
	rates := s.cells()
	most := rates[0].most(reach)
	for _, r := range rates {
		most = min(most, r.most(reach))
	}
	return most
}

// Validate returns all errors of the spec, as throttle.Faults.
func (s Spec) Validate() error {
	if s.Algorithm != "" && !slices.Contains(Algorithms, s.Algorithm) {
		return fielderrors.New("algorithm", "%q is none of %v", s.Algorithm, Algorithms)
	}
	if all := s.faults(); len(all) > 0 || s.Life == 0 || s.isWindow() {
		return all.Err()
	}
	// the fill rate of a promise's bucket is the count minus its burst
	if burst, _ := s.sizes(); 2*(burst-1) > s.Rates[0].Count {
		return fielderrors.New("burst", "%d leaves %d of %s for the rest of the period: want at most %d, the smaller the better", burst, s.Rates[0].Count-burst, s.Rates[0], s.Rates[0].Count/2+1)
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
	if s.isWindow() {
		s.windowFaults(&all)
	} else {
		s.bucketFaults(&all)
	}
	if !s.isWindow() && len(all) == 0 {
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

// exactFault reports a bucket too large to be counted without rounding.
func (s Spec) exactFault(all *throttle.Faults) {
	b := s.bucket()
	largest := int64(exact)
	if s.Ramp > 0 {
		largest /= coldPrice
	}
	if size := int64(b.size); size > largest/b.unit {
		all.Add("burst", "%d is too large to be counted exactly at %s: at most %d, or a count that divides the period", size, s.Rates[0], largest/b.unit)
	}
}

// check returns an error of the spec or the ask.
func (s Spec) check(key string, a Ask) error {
	if err := s.faults().Err(); err != nil {
		return fmt.Errorf("meter %s: %w", key, err)
	}
	if a.Least < 0 || a.Keep < 0 || a.Ahead < 0 || a.Most > 0 && a.Least > a.Most {
		return fmt.Errorf("meter %s: Least=%d, Most=%d, Keep=%d, Ahead=%s: want no negative Least, Keep or Ahead, and Least ≤ Most if Most is positive", key, a.Least, a.Most, a.Keep, a.Ahead)
	}
	if a.Most >= 0 && !s.has(a) {
		return fmt.Errorf("meter %s: ask for %d units and keep %d: the limit %s never has as many at once", key, max(1, a.Least), a.Keep, s.Rates[0])
	}
	return nil
}

// has reports whether the ask can ever succeed.
func (s Spec) has(a Ask) bool {
	least := max(1, a.Least)
	if s.isWindow() {
		return least <= s.AtOnce()-a.Keep
	}
	b := s.bucket()
	return int64(least)*b.unit <= b.limit(a)
}

// lapse reports whether the ask gives back units of a promise. These expire instead, because a
// returned unit could be used twice: once by its next holder, and once as drained meanwhile.
func (s Spec) lapse(a Ask) bool { return a.Most < 0 && s.Life > 0 }
