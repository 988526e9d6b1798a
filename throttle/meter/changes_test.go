package meter_test

import (
	"time"

	"pgregory.net/rapid"

	"github.com/pushpace/pushpace/throttle/meter"
)

// After a clock step at most one burst more passes, and Left does not grow.
func clockHeals(s *stage) {
	s.check(func(a *actor) {
		spec := drawSpec(a.rt)
		first := a.all(spec)
		step := time.Duration(rapid.Int64Range(-90_000_000, 90_000_000).Draw(a.rt, "step")) * time.Millisecond
		a.advance(step)
		if second := a.all(spec); second > spec.AtOnce() || step <= 0 && second > 0 {
			a.Fatalf("%+v: %d, and %d after a step of %s", spec, first, second, step)
		}
		least := spec.AtOnce()
		left := a.take(spec, meter.Ask{Least: least}).Left
		if full := s.actor(a.rt).untilFull(spec); left > full {
			a.Fatalf("%+v: %s left after a step of %s; %s without", spec, left, step, full)
		}
		a.advance(left)
		if answer := a.take(spec, meter.Ask{Least: least, Most: least}); answer.Units != least {
			a.Fatalf("%+v: %+v when all is over after a step of %s", spec, answer, step)
		}
	})
}

// untilFull returns the longest time until AtOnce units are available.
func (a *actor) untilFull(spec meter.Spec) time.Duration {
	return time.Duration(spec.AtOnce()+2) * (longest(spec) + spec.Life + time.Microsecond)
}

// After a change of the spec, used units stay used, and the debt is at most the new spec's burst.
// Callers that use different specs for a while do not get more units.
func changesNeitherRefillNorOwe(s *stage) {
	s.check(func(a *actor) {
		was, is := drawSpec(a.rt), drawSpec(a.rt)
		if isWindow(was) != isWindow(is) {
			return // the meter starts empty
		}
		if isWindow(was) && len(was.Rates) > 1 {
			was.Rates, is.Rates = was.Rates[:1], is.Rates[:1]
		}
		a.pass(was)
		used := a.all(was)
		if !isWindow(was) {
			if n := a.all(is); n > 0 {
				a.Fatalf("%+v to %+v: %d units at once, after all were used", was, is, n)
			}
		} else if n := a.all(is); n > max(0, is.AtOnce()-used) {
			a.Fatalf("%+v to %+v: %d units at once, after %d were used", was, is, n, used)
		}
		left := a.take(is, meter.Ask{}).Left
		if full := a.untilFull(is); left > full {
			a.Fatalf("%+v to %+v: %s left, more than the %s of a burst", was, is, left, full)
		}
		for range 5 {
			if n := a.all(was) + a.all(is); n > 0 {
				a.Fatalf("%+v and %+v: %d units, as askers disagree", was, is, n)
			}
		}
	})
}

// When a window becomes shorter, the cells still in it count.
func fewerCells(s *stage) {
	for _, is := range []meter.Spec{
		{Algorithm: meter.FixedWindow, Rates: rate(10, 6*time.Second)},
		{Algorithm: meter.SlidingWindow, Rates: rate(10, 6*time.Second), Cells: 1},
	} {
		a := s.actor(nil)
		was := meter.Spec{Algorithm: meter.SlidingWindow, Rates: rate(100, time.Minute)}
		for _, n := range []int{8, 8, 3, 4} {
			a.advance(6 * time.Second)
			a.take(was, meter.Ask{Least: n, Most: n})
		}
		in := 4
		if is.Algorithm == meter.SlidingWindow {
			in += 3
		}
		if n := a.all(is); n != 10-in {
			s.Errorf("%+v to %+v: %d units, with %d used in it", was, is, n, in)
		}
	}
}

func isWindow(s meter.Spec) bool {
	return s.Algorithm != meter.TokenBucket && s.Algorithm != meter.LeakyBucket
}

// An idle bucket starts at 1/20 of its burst and rate, and reaches the full rate after as much
// use as the ramp is long.
func ramps(s *stage) {
	a := s.actor(nil)
	spec := meter.Spec{Rates: rate(600_000, time.Minute), Ramp: time.Minute}.Promise()
	second := func() int {
		sum := 0
		for range 20 {
			sum += a.all(spec)
			a.advance(50 * time.Millisecond)
		}
		return sum
	}
	if n := second(); n > 1000 || n < 500 {
		s.Errorf("%d in the first second", n)
	}
	last := 0
	for i := range 60 {
		n := second()
		if n < last-50 {
			s.Errorf("%d in second %d, after %d", n, i+2, last)
		}
		last = n
	}
	if last < 9_700 || last > 10_000 {
		s.Errorf("%d a second after a minute", last)
	}
	a.advance(2 * time.Minute)
	if n := second(); n > 1000 {
		s.Errorf("%d in the first second after a silence", n)
	}
	// A caller that never needs more than one unit is not delayed, however cold the bucket is.
	small := meter.Spec{Rates: rate(10, time.Second), Burst: 3, Ramp: time.Minute}
	b := s.actor(nil)
	if answer := b.take(small, meter.Ask{Least: 3, Most: 3}); answer.Units != 3 {
		s.Errorf("a cold bucket denies for ever: %+v", answer)
	}
	left := b.take(small, meter.Ask{Least: 3}).Left
	b.advance(left)
	if answer := b.take(small, meter.Ask{Least: 3, Most: 3}); answer.Units != 3 || left != 6*time.Second {
		s.Errorf("after %s: %+v", left, answer)
	}
}
