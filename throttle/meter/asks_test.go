package meter_test

import (
	"sync"
	"sync/atomic"
	"time"

	"pgregory.net/rapid"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
)

// At one instant n units are there at once just when they are one by one.
func manyAreOneByOne(s *stage) {
	s.check(func(a *actor) {
		spec, other := drawSpec(a.rt), s.actor(a.rt)
		for range rapid.IntRange(1, 12).Draw(a.rt, "asks") {
			a.pass(spec)
			n := rapid.IntRange(1, spec.AtOnce()).Draw(a.rt, "units")
			together := a.take(spec, meter.Ask{Most: n}).Units
			single := 0
			for single < n && other.one(spec) {
				single++
			}
			if together != single {
				a.Fatalf("%+v: %d at once, %d one by one", spec, together, single)
			}
		}
	})
}

// What is taken and given back at one instant leaves nothing; of a promise it lapses.
func givingBackUndoes(s *stage) {
	s.check(func(a *actor) {
		spec, other := drawSpec(a.rt), s.actor(a.rt)
		spec.Life = 0
		for range rapid.IntRange(1, 12).Draw(a.rt, "asks") {
			a.pass(spec)
			if n := a.all(spec); n > 0 {
				a.take(spec, meter.Ask{Most: -n})
			}
			ask := a.ask(spec)
			if got, want := a.take(spec, ask), other.take(spec, ask); got != want {
				a.Fatalf("%+v of %+v after giving all back: %+v; want %+v", ask, spec, got, want)
			}
		}
	})
	a, spec := s.actor(nil), meter.Spec{Rates: rate(10, time.Minute), Burst: 5, Life: time.Second}
	a.all(spec)
	if answer := a.take(spec, meter.Ask{Most: -5}); answer != (meter.Answer{}) || a.one(spec) {
		s.Errorf("the units of a promise are there again: %+v", answer)
	}
}

// Who has to keep some for others never has more than the rest, and these are there.
func keptStays(s *stage) {
	s.check(func(a *actor) {
		spec := drawSpec(a.rt)
		if spec.AtOnce() < 2 {
			return
		}
		keep := rapid.IntRange(1, spec.AtOnce()-1).Draw(a.rt, "keep")
		a.take(spec, meter.Ask{Most: spec.AtOnce(), Keep: keep})
		if answer := a.take(spec, meter.Ask{Most: 1, Keep: keep}); answer.Units > 0 || answer.Left <= 0 {
			a.Fatalf("%+v: %+v beyond what is kept", spec, answer)
		}
		if n := a.all(spec); n != keep {
			a.Fatalf("%+v: %d were kept; want %d", spec, n, keep)
		}
	})
}

// Denied asks and looks leave no trace, of any of several rates.
func deniedChangesNothing(s *stage) {
	s.check(func(a *actor) {
		spec, other := drawSpec(a.rt), s.actor(a.rt)
		for range rapid.IntRange(1, 12).Draw(a.rt, "asks") {
			a.pass(spec)
			for range rapid.IntRange(0, 3).Draw(a.rt, "denied") {
				look := a.take(spec, meter.Ask{Least: spec.AtOnce()})
				if denied := a.take(spec, meter.Ask{Least: spec.AtOnce(), Most: spec.AtOnce()}); look.Left > 0 && denied != look {
					a.Fatalf("a look says %+v, asked in earnest %+v", look, denied)
				} else if denied.Units > 0 {
					other.take(spec, meter.Ask{Least: spec.AtOnce(), Most: spec.AtOnce()})
				}
			}
			ask := a.ask(spec)
			if got, want := a.take(spec, ask), other.take(spec, ask); got != want {
				a.Fatalf("%+v of %+v after denied ones: %+v; want %+v", ask, spec, got, want)
			}
		}
	})
}

func forgets(s *stage) {
	for _, algorithm := range meter.Algorithms {
		spec := meter.Spec{Algorithm: algorithm, Rates: rate(5, time.Second)}
		for range 20 {
			s.actor(nil).all(spec)
		}
		s.actor(nil).take(spec, meter.Ask{}) // only a look
		if n := s.Held(); n < 20 {
			s.Fatalf("%s: %d keys are held of 20", algorithm, n)
		}
		s.advance(3 * time.Second)
		if n := s.Held(); n > 0 {
			s.Errorf("%s: %d keys are held that say nothing", algorithm, n)
		}
	}
}

// Of those who ask side by side, by two processes, no more get a unit than there are.
func hotKey(s *stage) {
	for _, spec := range []meter.Spec{
		{Rates: rate(100, time.Hour)},
		{Algorithm: meter.FixedWindow, Rates: []throttle.Rate{{Count: 100, Period: 24 * time.Hour}, {Count: 200, Period: time.Hour}}},
		{Algorithm: meter.SlidingWindow, Rates: rate(100, time.Hour)},
	} {
		a := s.actor(nil)
		var granted atomic.Int64
		var wg sync.WaitGroup
		for i := range 16 {
			m := []meter.Meter{s.Meter, s.Peer}[i%2]
			wg.Go(func() {
				for range 10 {
					answer, err := m.Take(s.Context(), a.key, spec, meter.Ask{Least: 1, Most: 3})
					if err != nil {
						s.Error(err)
						return
					}
					granted.Add(int64(answer.Units))
				}
			})
		}
		wg.Wait()
		if n := granted.Load(); n != 100 {
			s.Errorf("%+v: %d units of 100", spec, n)
		}
	}
}
