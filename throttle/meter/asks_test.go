package meter_test

import (
	"time"

	"github.com/pushpace/pushpace/throttle/meter"
)

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
