package meter_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
)

// An instance is a meter under test, on a clock set by the suite.
type instance struct {
	Meter meter.Meter
	// Held returns the number of stored keys.
	Held func() int
}

// A suiteClock is the meter's clock. The suite sets it back and forth.
type suiteClock struct {
	micros atomic.Int64
	follow func(time.Time)
}

// Now returns the instant.
func (c *suiteClock) Now() time.Time { return time.UnixMicro(c.micros.Load()) }

// Follow calls f with each later time.
func (c *suiteClock) Follow(f func(time.Time)) {
	c.follow = f
	f(c.Now())
}

func (c *suiteClock) advance(d time.Duration) {
	c.micros.Add(d.Microseconds())
	c.follow(c.Now())
}

// conforms checks the properties named in only, or all of them, on meters from open.
func conforms(t *testing.T, open func(testing.TB, *suiteClock) instance, only ...string) {
	t.Helper()
	for _, p := range []struct {
		name string
		test func(*stage)
	}{
		{"counts as an exact oracle", countsAsOracle},
		{"in no window more than Most", neverMoreThanMost},
		{"a key that says nothing is forgotten", forgets},
		{"a clock that steps heals", clockHeals},
		{"another spec neither refills nor owes", changesNeitherRefillNorOwe},
		{"fewer cells of the same length", fewerCells},
		{"a ramp begins slowly and reaches the rate", ramps},
		{"more than there can be is an error", tooManyIsAnError},
	} {
		if len(only) > 0 && !slices.Contains(only, p.name) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			clock := new(suiteClock)
			clock.micros.Store(time.Date(2100, 3, 1, 12, 0, 0, 123_457_000, time.UTC).UnixMicro())
			p.test(&stage{T: t, suiteClock: clock, instance: open(t, clock)})
		})
	}
}

// A stage is the environment of a property.
type stage struct {
	*testing.T
	*suiteClock
	instance
	keys int
}

// check runs the property for many drawn values, each on keys of its own.
func (s *stage) check(property func(*actor)) {
	s.Helper()
	rapid.Check(s.T, func(rt *rapid.T) { property(s.actor(rt)) })
}

// An actor asks for units of one key.
type actor struct {
	*stage
	rt  *rapid.T // nil without drawn values
	key string
}

func (s *stage) actor(rt *rapid.T) *actor {
	s.keys++
	return &actor{stage: s, rt: rt, key: fmt.Sprintf("k/%d", s.keys)}
}

// Fatalf fails the test.
func (a *actor) Fatalf(format string, args ...any) {
	a.Helper()
	if a.rt != nil {
		a.rt.Fatalf(format, args...)
	}
	a.stage.Fatalf(format, args...)
}

// take asks, and fails the test on an error.
func (a *actor) take(spec meter.Spec, ask meter.Ask) meter.Answer {
	a.Helper()
	answer, err := a.Meter.Take(a.Context(), a.key, spec, ask)
	if err != nil {
		a.Fatalf("take %+v of %+v: %v", ask, spec, err)
	}
	if answer.Units != 0 && (answer.Units < ask.Least || answer.Units > ask.Most) {
		a.Fatalf("take %+v of %+v: %d units", ask, spec, answer.Units)
	}
	return answer
}

// all takes all available units.
func (a *actor) all(spec meter.Spec) int {
	return a.take(spec, meter.Ask{Most: 1_000_000}).Units
}

func rate(count int, period time.Duration) []throttle.Rate {
	return []throttle.Rate{{Count: count, Period: period}}
}

var periods = []time.Duration{time.Millisecond, 7 * time.Millisecond, 333_333 * time.Microsecond, time.Second, time.Minute, 24 * time.Hour}

// drawSpec draws a spec of any algorithm, without a ramp.
func drawSpec(rt *rapid.T) meter.Spec {
	s := meter.Spec{Algorithm: rapid.SampledFrom(append(meter.Algorithms, meter.PublishedWindow)).Draw(rt, "algorithm")}
	rates := 1
	switch s.Algorithm {
	case meter.SlidingWindow, meter.PublishedWindow:
		s.Cells = rapid.IntRange(0, 13).Draw(rt, "cells")
		rates = rapid.IntRange(1, 3).Draw(rt, "rates")
	case meter.FixedWindow:
		rates = rapid.IntRange(1, 3).Draw(rt, "rates")
	}
	for _, period := range rapid.SliceOfNDistinct(rapid.SampledFrom(periods), rates, rates, rapid.ID).Draw(rt, "periods") {
		s.Rates = append(s.Rates, throttle.Rate{Count: rapid.IntRange(1, 40).Draw(rt, "count"), Period: period})
	}
	if s.Algorithm == meter.TokenBucket || s.Algorithm == meter.SlidingWindow || s.Algorithm == meter.LeakyBucket {
		s.Life = rapid.SampledFrom([]time.Duration{0, 0, 0, time.Microsecond, 10 * time.Millisecond}).Draw(rt, "life")
	}
	switch s.Algorithm {
	case meter.TokenBucket:
		most := 60
		if s.Life > 0 {
			most = s.Rates[0].Count
		}
		s.Burst = rapid.IntRange(0, most).Draw(rt, "burst")
	case meter.LeakyBucket:
		s.Burst = rapid.IntRange(0, 60).Draw(rt, "burst")
	}
	return s
}

// longest is the longest of the spec's periods.
func longest(s meter.Spec) time.Duration {
	d := time.Duration(0)
	for _, r := range s.Rates {
		d = max(d, r.Period)
	}
	return d
}

// pass advances the clock by a time of the order of the spec's periods.
func (a *actor) pass(s meter.Spec) {
	period := rapid.SampledFrom(s.Rates).Draw(a.rt, "of").Period
	a.advance(rapid.SampledFrom([]time.Duration{
		0, 0, 0, time.Microsecond, period / 40, period / 40, period / 13, period / 3, period - time.Microsecond, period,
		time.Duration(rapid.Int64Range(0, 2*period.Microseconds()).Draw(a.rt, "µs")) * time.Microsecond,
	}).Draw(a.rt, "pass"))
}

// ask draws an ask that can succeed at some time: a take or a read.
func (a *actor) ask(s meter.Spec) meter.Ask {
	var ask meter.Ask
	if rapid.IntRange(0, 3).Draw(a.rt, "keep") == 0 {
		ask.Keep = rapid.IntRange(0, s.AtOnce()-1).Draw(a.rt, "kept")
	}
	if rapid.Bool().Draw(a.rt, "one") {
		ask.Least, ask.Most = 1, 1
		return ask
	}
	ask.Most = rapid.IntRange(0, s.AtOnce()+2).Draw(a.rt, "most")
	ask.Least = rapid.IntRange(0, min(ask.Most, s.AtOnce()-ask.Keep)).Draw(a.rt, "least")
	return ask
}
