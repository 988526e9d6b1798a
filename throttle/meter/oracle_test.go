package meter_test

import (
	"context"
	"errors"
	"math/big"
	"reflect"
	"sync"
	"time"

	"pgregory.net/rapid"

	"github.com/pushpace/pushpace/throttle/meter"
)

// An oracle computes a meter's answers from the definitions, with exact fractions, over all
// earlier takes.
type oracle interface {
	take(now time.Time, a meter.Ask) (units int, left time.Duration, rule string)
}

func newOracle(s meter.Spec) oracle {
	switch s.Algorithm {
	case meter.TokenBucket, meter.LeakyBucket:
		return newBucketOracle(s)
	}
	return &windowOracle{spec: s}
}

// A bucketOracle is a bucket with draining units.
type bucketOracle struct {
	spec  meter.Spec
	every *big.Rat // µs from one unit to the next
	burst int
	size  int // of the queue of a leaky bucket
	owed  *big.Rat
	at    time.Time
}

func newBucketOracle(s meter.Spec) *bucketOracle {
	n, leaky := s.Rates[0].Count, s.Algorithm == meter.LeakyBucket
	o := &bucketOracle{spec: s, burst: s.Burst, owed: new(big.Rat)}
	switch {
	case s.Burst == 0 && s.Life > 0 && !leaky:
		o.burst = max(1, min(n/10, max(n/100, 100)))
	case s.Burst == 0:
		o.burst = n
	}
	if leaky {
		o.size, o.burst = o.burst, 1
	}
	o.every = big.NewRat(s.Rates[0].Period.Microseconds(), int64(n))
	if s.Life > 0 {
		o.every = big.NewRat((s.Rates[0].Period+s.Life).Microseconds()+1, int64(n-o.burst+1))
	}
	return o
}

func (o *bucketOracle) drained(d time.Duration) *big.Rat {
	return new(big.Rat).Quo(big.NewRat(d.Microseconds(), 1), o.every)
}

// pass drains until now.
func (o *bucketOracle) pass(now time.Time) {
	if !o.at.IsZero() {
		o.owed.Sub(o.owed, o.drained(now.Sub(o.at)))
	}
	if o.at = now; o.owed.Sign() < 0 {
		o.owed.SetInt64(0)
	}
}

func (o *bucketOracle) take(now time.Time, a meter.Ask) (int, time.Duration, string) {
	o.pass(now)
	if a.Most < 0 {
		if o.spec.Life == 0 {
			o.owed.Add(o.owed, big.NewRat(int64(a.Most), 1))
		}
		if o.owed.Sign() < 0 {
			o.owed.SetInt64(0)
		}
		return 0, 0, ""
	}
	limit := new(big.Rat).Add(big.NewRat(int64(o.burst), 1), o.drained(a.Ahead))
	if size := big.NewRat(int64(o.size), 1); o.size > 0 && limit.Cmp(size) > 0 {
		limit = size
	}
	room := new(big.Rat).Sub(limit, big.NewRat(int64(a.Keep), 1))
	room.Sub(room, o.owed)
	least := big.NewRat(int64(max(1, a.Least)), 1)
	if short := new(big.Rat).Sub(least, room); short.Sign() > 0 {
		return 0, o.lasts(short), o.spec.Rates[0].String()
	}
	units := min(a.Most, int(new(big.Int).Quo(room.Num(), room.Denom()).Int64()))
	o.owed.Add(o.owed, big.NewRat(int64(units), 1))
	if units == 0 {
		return 0, 0, ""
	}
	return units, o.lasts(new(big.Rat).Sub(o.owed, big.NewRat(int64(o.burst), 1))), ""
}

// lasts returns how long the debt takes to drain, in whole µs.
func (o *bucketOracle) lasts(units *big.Rat) time.Duration {
	if units.Sign() <= 0 {
		return 0
	}
	d := new(big.Rat).Mul(units, o.every)
	up := new(big.Int).Add(d.Num(), new(big.Int).Sub(d.Denom(), big.NewInt(1)))
	return time.Duration(up.Quo(up, d.Denom()).Int64()) * time.Microsecond
}

// An oracleMeter is a Meter of buckets without ramps, in memory. The zero value is ready.
type oracleMeter struct {
	mu      sync.Mutex
	buckets map[string]*bucketOracle
}

// Take implements Meter. A change of the spec does not change the used part of the burst.
func (m *oracleMeter) Take(_ context.Context, key string, s meter.Spec, a meter.Ask) (meter.Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, o := time.Now().Truncate(time.Microsecond), m.buckets[key]
	if a.Ahead == 0 && max(1, a.Least)+a.Keep > s.AtOnce() {
		return meter.Answer{}, errors.New("more units than there can be")
	}
	if o == nil || !reflect.DeepEqual(o.spec, s) {
		next := newBucketOracle(s)
		if o != nil {
			o.pass(now)
			next.owed.Mul(o.owed, big.NewRat(int64(next.burst), int64(o.burst)))
		}
		if m.buckets == nil {
			m.buckets = map[string]*bucketOracle{}
		}
		next.at, m.buckets[key], o = now, next, next
	}
	units, left, rule := o.take(now, a)
	return meter.Answer{Units: units, Left: left, Rule: rule}, nil
}

// A windowOracle remembers every unit.
type windowOracle struct {
	spec  meter.Spec
	taken []time.Time
}

// leaves returns when a unit taken at that time no longer counts.
func (o *windowOracle) leaves(taken time.Time, period time.Duration) time.Time {
	k, span := int64(o.spec.Cells), int64(1)
	if k == 0 {
		k = 10
	}
	switch o.spec.Algorithm {
	case meter.FixedWindow:
		k = 1
	case meter.SlidingWindow:
		span = k + 1
	case meter.PublishedWindow:
		span = k
	}
	length := ((period + o.spec.Life).Microseconds() + k - 1) / k
	return time.UnixMicro((taken.UnixMicro()/length + span) * length)
}

func (o *windowOracle) take(now time.Time, a meter.Ask) (int, time.Duration, string) {
	if a.Most < 0 {
		if o.spec.Life == 0 {
			o.taken = o.taken[:max(0, len(o.taken)+a.Most)]
		}
		return 0, 0, ""
	}
	units, left, rule := a.Most, time.Duration(0), ""
	for _, r := range o.spec.Rates {
		var until []time.Time // for each counting unit, in order
		for _, taken := range o.taken {
			if at := o.leaves(taken, r.Period); at.After(now) {
				until = append(until, at)
			}
		}
		room := r.Count - a.Keep - len(until)
		units = min(units, room)
		if short := max(1, a.Least) - room; short > 0 {
			if d := until[short-1].Sub(now); d > left {
				left, rule = d, r.String()
			}
		}
	}
	if left > 0 {
		return 0, left, rule
	}
	for range units {
		o.taken = append(o.taken, now)
	}
	return units, 0, ""
}

// countsAsOracle compares every answer of random histories with the oracle's. The oracle forgets
// nothing, so the test also shows that expired keys make no difference.
func countsAsOracle(s *stage) {
	s.check(func(a *actor) {
		spec := drawSpec(a.rt)
		o := newOracle(spec)
		for range rapid.IntRange(1, 30).Draw(a.rt, "asks") {
			a.pass(spec)
			ask := a.ask(spec)
			switch rapid.IntRange(0, 5).Draw(a.rt, "kind") {
			case 0:
				ask = meter.Ask{Most: -rapid.IntRange(1, spec.AtOnce()).Draw(a.rt, "back")}
			case 1:
				ask.Ahead = time.Duration(rapid.Int64Range(0, 2*longest(spec).Microseconds()).Draw(a.rt, "ahead")) * time.Microsecond
				ask.Most = rapid.IntRange(ask.Most, 80).Draw(a.rt, "of those ahead")
			}
			got := a.take(spec, ask)
			if units, left, rule := o.take(a.Now(), ask); got != (meter.Answer{Units: units, Left: left, Rule: rule}) {
				a.Fatalf("take %+v of %+v: %+v; the oracle has %d units, %s left, rule %q", ask, spec, got, units, left, rule)
			}
		}
	})
}
