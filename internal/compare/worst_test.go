package compare

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
)

// The history that is constructed attains what a meter says it may let pass, and no
// more. Where a bucket holds one unit it may fall short: what drains of a µs then is lost.
func TestWorstAttainsTheBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := Contestant{spec: spec{Algorithm: rapid.SampledFrom(append(meter.Algorithms, meter.PublishedWindow)).Draw(t, "algorithm")}}
		c.spec.Rates = []throttle.Rate{{Count: rapid.IntRange(1, 300).Draw(t, "count"), Period: time.Duration(rapid.IntRange(1, 5000).Draw(t, "period")) * time.Millisecond}}
		switch c.spec.Algorithm {
		case meter.TokenBucket:
			c.spec.Promise = rapid.Bool().Draw(t, "promise")
			c.spec.Burst = rapid.IntRange(0, c.spec.Rates[0].Count).Draw(t, "burst")
			c.spec.Ramp = time.Duration(rapid.IntRange(0, 1).Draw(t, "ramp")) * time.Minute
		case meter.SlidingWindow, meter.PublishedWindow:
			c.spec.Cells = rapid.IntRange(0, 20).Draw(t, "cells")
		}
		if c.spec.validate() != nil {
			return
		}
		got, err := c.worst()
		want := c.spec.meter()
		holdsOne := want.Algorithm == meter.LeakyBucket && want.Rates[0].Count == 1 || want.Algorithm == meter.TokenBucket && want.AtOnce() == 1
		if most := want.Most(want.Rates[0].Period); err != nil || got.Most > most || got.Most < most && !holdsOne {
			t.Errorf("%+v: %s, %v, want %d", want, got, err, most)
		}
	})
}

// What others let through at worst is known.
func TestWorstOfTheOthers(t *testing.T) {
	t.Parallel()
	one := []throttle.Rate{{Count: 600, Period: time.Minute}}
	for _, c := range []struct {
		spec spec
		most int
		in   time.Duration
	}{
		{spec{Algorithm: Rolling, Rates: one}, 600, time.Minute},
		{spec{Algorithm: Rolling, MinGap: time.Second}, 1, time.Second},
		{spec{Algorithm: Rolling, MinGap: time.Second, Rates: one}, 1, time.Second},
		{spec{Algorithm: PublishedRolling, Rates: one}, 600, time.Minute},
		{spec{Algorithm: PublishedCounters, Rates: one}, 1200, time.Minute},
		{spec{Algorithm: PublishedBucket, Rates: one}, 1200, time.Minute},
		{spec{Algorithm: PublishedBucket, Rates: one, Burst: 60}, 660, time.Minute},
		{spec{Algorithm: WeightedWindow, Rates: one}, 1199, time.Minute},
	} {
		contestant := Contestant{"c", c.spec}
		if got, err := contestant.worst(); err != nil || got.Most != c.most || got.Rate.Period != c.in {
			t.Errorf("%+v: %s, %v, want %d in %s", c.spec, got, err, c.most, c.in)
		}
	}
}

// No history is worse than that.
func TestNothingIsWorse(t *testing.T) {
	t.Parallel()
	for _, algorithm := range Algorithms {
		rapid.Check(t, func(t *rapid.T) {
			c := Contestant{"c", spec{Algorithm: algorithm, Rates: drawRates(t, 1)}}
			worst, err := c.worst()
			if err != nil {
				t.Fatal(err)
			}
			a := drawArrivals(t, 100)
			a.keys, a.key = 1, make([]int32, a.Len())
			replayed, err := Replay(a, []Contestant{c})
			if err != nil {
				t.Fatal(err)
			}
			if got := replayed.results[0]; got.most > worst.Most || worst.Most <= c.spec.Rates[0].Count && got.violations > 0 {
				t.Errorf("%s: %d in a period with %d violations, and at worst %s", c.Limit(), got.most, got.violations, worst)
			}
		})
	}
}
