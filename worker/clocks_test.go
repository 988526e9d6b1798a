package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// apart are limits with slots so late that a deferred job returns to the queue.
var apart = limits.New(throttle.Policy{MinGap: 3 * time.Second}, nil)

// The clock of the limits' Redis is 30 s ahead of the queue's, or behind. A deferred job still leaves
// when its gap is over.
func TestDeferredJobIsOnTimeDespiteClockOffset(t *testing.T) {
	t.Parallel()
	const apartBy = 30 * time.Second
	for name, ahead := range map[string]time.Duration{"ahead": apartBy, "behind": -apartBy} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Miniredis(t)
			server.SetTime(time.Now().Add(ahead))
			ticking, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for tick := time.NewTicker(time.Millisecond); ; {
					select {
					case <-tick.C:
						server.SetTime(time.Now().Add(ahead))
					case <-ticking.Done():
						return
					}
				}
			}()
			t.Cleanup(func() { stop(); <-ended })
			r := newRig(t, redistest.Connect(t, &redis.Options{Addr: redistest.Miniredis(t).Addr()}), apart)
			limiter, err := throttle.New(redistest.Connect(t, &redis.Options{Addr: server.Addr()}), throttle.Options{Timeout: redistest.Patience})
			must(t, err)
			t.Cleanup(func() { limiter.Close() })
			r.limiter, r.options.Limiter = limiter, limiter
			r.start()
			later := to("later", apple)
			later.User, later.NotBefore = "u2", time.Now().Add(2*time.Second)
			r.enqueue(later)
			r.enqueueMany("u1", 2, apple)
			r.settled(3)
			admitted := r.timeline("u1").Admissions[throttle.General]
			if len(admitted) != 2 || admitted[1].At.Sub(admitted[0].At) < 3*time.Second-time.Millisecond {
				t.Errorf("%+v are admitted, want two that are 3s apart", admitted)
			}
			if gap := r.pushed("u1-1")[0].At.Sub(r.pushed("u1-0")[0].At); gap > apartBy/2 {
				t.Errorf("the second one leaves %s after the first", gap)
			}
			if early := later.NotBefore.Sub(r.pushed("later")[0].At); early > 0 {
				t.Errorf("what waits for its not_before leaves %s too early", early)
			}
		})
	}
}
