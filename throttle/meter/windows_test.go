package meter_test

import (
	"time"

	"pgregory.net/rapid"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
)

// A passed is the number of units that passed at a time.
type passed struct {
	at    time.Time
	units int
}

// most returns the largest number of units in any window.
func most(history []passed, window time.Duration) int {
	largest := 0
	for _, from := range history {
		sum := 0
		for _, p := range history {
			if !p.at.Before(from.at) && p.at.Sub(from.at) < window {
				sum += p.units
			}
		}
		largest = max(largest, sum)
	}
	return largest
}

// windows are the window lengths under test.
func (a *actor) windows(spec meter.Spec) []time.Duration {
	all := []time.Duration{time.Microsecond, 2 * time.Microsecond}
	for _, r := range spec.Rates {
		all = append(all, r.Period/7, r.Period, r.Period+time.Microsecond, 2*r.Period)
	}
	return append(all, time.Duration(rapid.Int64Range(1, 3*longest(spec).Microseconds()).Draw(a.rt, "window"))*time.Microsecond)
}

// No window has more units than Most returns. Units taken in advance count when they are covered,
// units of a promise at any time of their life.
func neverMoreThanMost(s *stage) {
	s.check(func(a *actor) {
		spec := drawSpec(a.rt)
		var history []passed
		var rounded time.Duration // Left is in whole µs
		for range rapid.IntRange(1, 50).Draw(a.rt, "asks") {
			a.pass(spec)
			ask := a.ask(spec)
			if spec.Life == 0 && rapid.IntRange(0, 3).Draw(a.rt, "ahead") == 0 {
				ask, rounded = meter.Ask{Most: 1, Ahead: longest(spec)}, time.Microsecond
			}
			if answer := a.take(spec, ask); answer.Units > 0 {
				history = append(history, passed{a.Now().Add(answer.Left), answer.Units})
				if rapid.IntRange(0, 5).Draw(a.rt, "give back") == 0 && ask.Ahead == 0 {
					back := rapid.IntRange(1, answer.Units).Draw(a.rt, "back")
					a.take(spec, meter.Ask{Most: -back})
					if spec.Life == 0 {
						history[len(history)-1].units -= back
					}
				}
			}
		}
		for _, w := range a.windows(spec) {
			// Units usable within the window were taken within it, or at most their life before.
			if n := most(history, w+spec.Life-rounded); n > spec.Most(w) {
				a.Fatalf("%+v: %d in %s; Most says %d", spec, n, w, spec.Most(w))
			}
		}
		for _, r := range spec.Rates {
			promised := spec.Life > 0 || spec.Algorithm == meter.SlidingWindow
			if n := most(history, r.Period+spec.Life-rounded); promised && n > r.Count {
				a.Fatalf("%+v: %d in a period, which is promised to have %d at most", spec, n, r.Count)
			}
		}
	})
}

// tooManyIsAnError: an ask that can never succeed is an error.
func tooManyIsAnError(s *stage) {
	for _, spec := range []meter.Spec{
		{Rates: rate(100, time.Second), Burst: 10},
		{Algorithm: meter.LeakyBucket, Rates: rate(10, time.Second)},
		{Algorithm: meter.FixedWindow, Rates: []throttle.Rate{{Count: 20, Period: time.Second}, {Count: 10, Period: time.Minute}}},
	} {
		a := s.actor(nil)
		for _, ask := range []meter.Ask{
			{Least: spec.AtOnce() + 1, Most: spec.AtOnce() + 1}, {Least: spec.AtOnce() + 1}, {Most: 1, Keep: spec.AtOnce()},
			{Least: 2, Most: 1}, {Least: -1}, {Most: 1, Keep: -1}, {Most: 1, Ahead: -1},
		} {
			if answer, err := s.Meter.Take(s.Context(), a.key, spec, ask); err == nil {
				s.Errorf("%+v of %+v: %+v", ask, spec, answer)
			}
		}
		if n := a.all(spec); n != spec.AtOnce() {
			s.Errorf("%+v: %d after mistakes; want %d", spec, n, spec.AtOnce())
		}
	}
}

func forgets(s *stage) {
	for _, algorithm := range meter.Algorithms {
		spec := meter.Spec{Algorithm: algorithm, Rates: rate(5, time.Second)}
		for range 20 {
			s.actor(nil).all(spec)
		}
		s.actor(nil).take(spec, meter.Ask{}) // reads only
		if n := s.Held(); n != 20 {
			s.Fatalf("%s: %d keys are held, want 20", algorithm, n)
		}
		s.advance(3 * time.Second)
		if n := s.Held(); n > 0 {
			s.Errorf("%s: %d keys are held that say nothing", algorithm, n)
		}
	}
}
