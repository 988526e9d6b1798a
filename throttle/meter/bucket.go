package meter

import (
	"cmp"
	"math"
	"math/bits"

	"github.com/pushpace/pushpace/throttle"
)

// bucketTerms are a spec's parameters for a bucket.
type bucketTerms struct {
	unit  int64 // cost of a unit in parts
	drain int64 // parts that drain per µs
	burst int   // units available at once
	size  int   // largest number of units owed; for a leaky bucket including the waiting ones
	leaky bool
	ramp  int64 // µs
	rate  throttle.Rate
}

// coldPrice is the cost of a unit of a cold bucket, in units: the bucket starts at 1/20 of its
// rate. Google's steps for new traffic are 1, 5, 10, 25, 50, 75 and 100 %.
const coldPrice = 20

// bucket returns the spec's terms. A promise of N in a period P, with units of life T, holds if
// at most N units are taken within P+T: the burst B, and one unit more after each (P+T)/(N-B+1).
// The code adds 1 µs for the resolution of the clock.
func (s Spec) bucket() bucketTerms {
	n, period := s.Rates[0].Count, s.Rates[0].Period.Microseconds()
	t := bucketTerms{unit: period, drain: int64(n), leaky: s.Algorithm == LeakyBucket, ramp: s.Ramp.Microseconds(), rate: s.Rates[0]}
	t.burst, t.size = s.sizes()
	if s.Life > 0 {
		t.unit, t.drain = period+s.Life.Microseconds()+1, int64(n-t.burst+1)
	}
	common := gcd(t.unit, t.drain)
	t.unit, t.drain = t.unit/common, t.drain/common
	return t
}

// sizes returns the units that a bucket covers at once, and the units that may be owed.
func (s Spec) sizes() (burst, size int) {
	n := s.Rates[0].Count
	switch {
	case s.Algorithm == LeakyBucket:
		return 1, cmp.Or(s.Burst, n)
	case s.Life > 0: // a burst lowers the fill rate: so 1 %, but at least 100 for large batches, and at most a tenth
		n = max(1, min(max(100, n/100), n/10))
	}
	n = cmp.Or(s.Burst, n)
	return n, n
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// covered returns burst in parts, full returns size in parts.
func (t bucketTerms) covered() int64 { return int64(t.burst) * t.unit }
func (t bucketTerms) full() int64    { return int64(t.size) * t.unit }

// most returns the largest number of units covered within reach, the µs from the first unit to the
// last.
func (t bucketTerms) most(reach int64) int {
	high, low := bits.Mul64(uint64(reach), uint64(t.drain))
	if high >= uint64(t.unit) {
		return math.MaxInt
	}
	drained, _ := bits.Div64(high, low, uint64(t.unit))
	return t.burst + int(min(drained, math.MaxInt32))
}

// limit returns the largest debt after a take: the covered units and the units that drain in
// a.Ahead.
func (t bucketTerms) limit(a Ask) int64 {
	ahead := min(a.Ahead.Microseconds(), (exact-t.full())/t.drain) * t.drain
	limit := t.covered() + ahead
	if t.leaky {
		limit = min(limit, t.full())
	}
	return limit - int64(a.Keep)*t.unit
}
