package meter_test

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
)

func forgets(s *stage) {
	for _, algorithm := range meter.Algorithms {
		spec := meter.Spec{Algorithm: algorithm, Rates: rate(5, time.Second)}
		for range 20 {
			s.actor(nil).all(spec)
		}
		s.actor(nil).take(spec, meter.Ask{}) // only a look
		if n := s.Held(); n != 20 {
			s.Fatalf("%s: %d keys are held, want 20", algorithm, n)
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
