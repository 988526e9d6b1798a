package meter

import (
	"cmp"
	"math"
	"math/bits"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// A bucket is what is known of a key whose spec is a bucket: what is owed for the units
// taken, which drains steadily. Its numbers are whole: a unit costs a whole number of
// parts, and a whole number of them drains in a µs, so that no fraction is ever lost.
// bucket.lua is the same arithmetic.
//
// Token bucket, leaky bucket and GCRA are this one state; they differ by their terms.
type bucket struct {
	debt int64 // parts
	at   int64 // the instant of that, in µs

	// of a ramp: how long it has been warming up, and when it was slowed, in µs
	warm, slowed int64

	// of the terms that it was counted by: what drains in a µs, and what is covered at once
	drain, burst int64
}

// bucketTerms are what a spec says to a bucket.
type bucketTerms struct {
	unit  int64 // parts that a unit costs
	drain int64 // parts that drain in a µs
	burst int   // units that are covered at once
	size  int   // units of the whole: of a leaky bucket those that wait too
	leaky bool
	ramp  int64 // µs
	rate  throttle.Rate
}

// coldest is what a unit costs of a cold bucket, in units: it begins with a twentieth
// of its pace.
const coldest = 20

// slowedFor is for how long, in µs, a bucket that was slowed is not slowed again: all its
// users meet the same trouble at about the same time.
const slowedFor = 1_000_000

// bucket returns the spec's terms. A promise of N in a period P, of units that live for
// T, is kept when those that are taken within P+T are N at most: the burst B, and one
// more after each (P+T)/(N-B+1). 1 µs is for the clock, which has no less.
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

// sizes are how many units a bucket covers at once, and how many may be owed.
func (s Spec) sizes() (burst, size int) {
	n := s.Rates[0].Count
	switch {
	case s.Algorithm == LeakyBucket:
		return 1, cmp.Or(s.Burst, n)
	case s.Life > 0:
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

// covered and full are burst and size in parts.
func (t bucketTerms) covered() int64 { return int64(t.burst) * t.unit }
func (t bucketTerms) full() int64    { return int64(t.size) * t.unit }

// most is how many units are covered at instants of which the last is at most so many
// µs after the first.
func (t bucketTerms) most(reach int64) int {
	high, low := bits.Mul64(uint64(reach), uint64(t.drain))
	if high >= uint64(t.unit) {
		return math.MaxInt
	}
	drained, _ := bits.Div64(high, low, uint64(t.unit))
	return t.burst + int(min(drained, math.MaxInt32))
}

// limit is how much may be owed after a take: as much as is covered, and what drains
// in the time ahead.
func (t bucketTerms) limit(a Ask) int64 {
	ahead := min(a.Ahead.Microseconds(), (exact-t.full())/t.drain) * t.drain
	limit := t.covered() + ahead
	if t.leaky {
		limit = min(limit, t.full())
	}
	return limit - int64(a.Keep)*t.unit
}

// seen returns the bucket as it is at that instant, and by these terms. It reports whether
// that is to be kept even if nothing is taken: where it was counted by other terms, or
// by a clock that was set back since, which goes on from there.
func (b bucket) seen(t bucketTerms, now int64) (bucket, bool) {
	if b.burst == 0 {
		return bucket{at: now, drain: t.drain, burst: t.covered()}, false
	}
	elapsed := now - b.at
	if elapsed > 0 {
		busy := min(elapsed, b.drained())
		b.debt = max(0, b.debt-busy*b.drain)
		b.warm = max(0, min(t.ramp, b.warm+busy)-(elapsed-busy))
	}
	b.at = now
	changed := b.burst != t.covered() || b.drain != t.drain
	if changed {
		// As large a part of the burst is used as before: who changes a limit gains nothing
		// and owes no more, and neither do those who disagree about it for a while.
		b.debt = min(t.full(), int64(math.Ceil(float64(b.debt)/float64(b.burst)*float64(t.covered()))))
		b.burst, b.drain = t.covered(), t.drain
	}
	b.warm = min(b.warm, t.ramp)
	return b, changed || elapsed < 0
}

// drained is after how many µs nothing is owed.
func (b bucket) drained() int64 { return (b.debt + b.drain - 1) / b.drain }

// take takes units as asked for. It returns what the bucket is then, and whether that is
// to be kept: what is denied leaves no trace.
func (t bucketTerms) take(b bucket, now int64, a Ask) (bucket, Answer, bool) {
	b, changed := b.seen(t, now)
	if apart := now - b.slowed; a.Slow && t.ramp > 0 && max(apart, -apart) >= slowedFor {
		b.warm, b.slowed, changed = b.warm/2, now, true
	}
	if a.Most < 0 {
		b.debt = max(0, b.debt+int64(a.Most)*t.unit)
		return b, Answer{}, true
	}
	price := t.unit
	if t.ramp > 0 {
		price = int64(math.Ceil(float64(t.unit) / max(1.0/coldest, float64(b.warm)/float64(t.ramp))))
	}
	limit, least := t.limit(a), max(1, int64(a.Least))
	// A cold bucket that owes nothing gives as many as a warm one, at its own price.
	if over := b.debt + min(least*price, limit) - limit; over > 0 {
		return b, Answer{Left: t.after(over), Rule: t.rate.String()}, changed
	}
	if a.Most == 0 {
		return b, Answer{}, changed
	}
	units := max(least, min(int64(a.Most), (limit-b.debt)/price))
	uncovered := min(b.debt+units*price, limit) - t.covered()
	b.debt += units * price
	return b, Answer{Units: int(units), Left: t.after(uncovered)}, true
}

// after is how long so much takes to drain.
func (t bucketTerms) after(parts int64) time.Duration {
	return time.Duration((max(0, parts)+t.drain-1)/t.drain) * time.Microsecond
}

// lapses is the instant from which on the bucket says no more than none.
func (b bucket) lapses(t bucketTerms) int64 {
	busy := b.drained()
	return max(b.at+busy+min(t.ramp, b.warm+busy), b.slowed+slowedFor)
}
