package meter_test

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
)

// publishedFaults are what the code of the papers that describe these algorithms gets
// wrong. That a policy of one app is not another's, and that a place of a concurrency
// limit is not lost, is for those who have these.
func publishedFaults(s *stage) {
	fixed := meter.Spec{Algorithm: meter.FixedWindow, Rates: rate(5, time.Second)}
	for _, f := range []struct {
		name string
		test func(t *testing.T, a *actor)
	}{
		{"a fixed window is full for a whole interval after the start, and does not count its first request", func(t *testing.T, a *actor) {
			for window := range 3 {
				n := 0
				for n <= 5 && a.one(fixed) {
					n++
				}
				if n != 5 {
					t.Errorf("window %d: %d of 5", window, n)
				}
				a.advance(a.take(fixed, meter.Ask{}).Left)
			}
		}},
		{"a leaky bucket denies its first calls", func(t *testing.T, a *actor) {
			spec := meter.Spec{Algorithm: meter.LeakyBucket, Rates: rate(10, time.Second), Burst: 3}
			for i, want := range []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond} {
				if answer := a.take(spec, meter.Ask{Most: 1, Ahead: time.Hour}); answer.Units != 1 || answer.Left != want {
					t.Errorf("call %d: %+v", i, answer)
				}
			}
			if answer := a.take(spec, meter.Ask{Most: 1, Ahead: time.Hour}); answer.Units != 0 || answer.Left != 100*time.Millisecond {
				t.Errorf("the queue is full: %+v", answer)
			}
		}},
		{"a bucket is two keys, of which one may be missing", func(t *testing.T, a *actor) {
			before := a.Held()
			a.all(meter.Spec{Rates: rate(5, time.Second)})
			if n := a.Held() - before; n != 1 {
				t.Errorf("a bucket is %d keys", n)
			}
		}},
		{"a clock behind takes units away", func(t *testing.T, a *actor) {
			spec := meter.Spec{Rates: rate(10, time.Second)}
			a.take(spec, meter.Ask{Most: 5})
			a.advance(-time.Hour)
			if n := a.all(spec); n != 5 {
				t.Errorf("%d of 5 after the clock was set back", n)
			}
		}},
		{"a limit of 0 lets the first one pass", func(t *testing.T, a *actor) {
			zero := meter.Spec{Algorithm: meter.FixedWindow, Rates: []throttle.Rate{{Count: 0, Period: time.Second}}}
			if answer, err := a.Meter.Take(t.Context(), a.key, zero, meter.Ask{Most: 1}); err == nil || answer.Units > 0 {
				t.Errorf("%+v, %v", answer, err)
			}
		}},
		{"what one rate denies is charged to the others", func(t *testing.T, a *actor) {
			spec := meter.Spec{Algorithm: meter.FixedWindow, Rates: []throttle.Rate{{Count: 3, Period: time.Second}, {Count: 20, Period: time.Hour}}}
			sum := 0
			for range 10 { // seconds, in each of which many are denied
				for range 50 {
					sum += a.take(spec, meter.Ask{Most: 1}).Units
				}
				a.advance(time.Second)
			}
			if sum != 20 {
				t.Errorf("%d of 20 an hour, by 3 a second", sum)
			}
		}},
		{"fractions are dropped: asked every 1.9 ms, 1,000 a second are 526", func(t *testing.T, a *actor) {
			spec := meter.Spec{Rates: rate(1000, time.Second), Burst: 5}
			a.all(spec)
			sum := 0
			for range 1000 {
				a.advance(1900 * time.Microsecond)
				sum += a.all(spec)
			}
			if sum != 1900 {
				t.Errorf("%d of 1900 in 1.9 s", sum)
			}
		}},
		{"a changed parameter refills the bucket, or is not taken up", func(t *testing.T, a *actor) {
			spec := meter.Spec{Rates: rate(10, time.Second)}
			a.all(spec)
			for _, n := range []int{20, 5, 10, 40} {
				spec.Rates = rate(n, time.Second)
				if a.one(spec) {
					t.Errorf("%d a second: there is one at once", n)
				}
			}
			a.advance(500 * time.Millisecond)
			if n := a.all(spec); n != 20 {
				t.Errorf("%d in half a second at 40 a second", n)
			}
		}},
		{"under steady traffic a window never ends", func(t *testing.T, a *actor) {
			sum := 0
			for range 100 {
				sum += a.take(fixed, meter.Ask{Most: 1}).Units
				a.advance(100 * time.Millisecond)
			}
			if sum < 50 || sum > 55 {
				t.Errorf("%d in 10 s of 5 a second", sum)
			}
		}},
	} {
		s.Run(f.name, func(t *testing.T) { f.test(t, s.actor(nil)) })
	}
}
