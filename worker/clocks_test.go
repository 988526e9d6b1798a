package worker_test

import (
	"context"
	"fmt"
	"strings"
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

// After the limits' Redis set its clock back, the log names a hundred users with newer admissions, and
// says that there are more.
func TestClockSetBackNamesUsers(t *testing.T) {
	t.Parallel()
	const users = 103
	server := redistest.Miniredis(t)
	now := time.Now()
	server.SetTime(now)
	r := newRig(t, redistest.Connect(t, &redis.Options{Addr: redistest.Miniredis(t).Addr()}), limits.New(throttle.Policy{MinGap: time.Millisecond}, nil))
	limiter, err := throttle.New(redistest.Connect(t, &redis.Options{Addr: server.Addr()}), throttle.Options{Timeout: redistest.Patience})
	must(t, err)
	t.Cleanup(func() { limiter.Close() })
	r.limiter, r.options.Limiter = limiter, limiter
	log := r.logs()
	r.start()
	round := func(name string) {
		for i := range users {
			n := to(fmt.Sprint(name, "-", i), apple)
			n.User = fmt.Sprint("user-", i)
			r.enqueue(n)
		}
	}
	round("before")
	r.settled(users)
	server.SetTime(now.Add(-time.Hour))
	const named, counted = "the limited notifications of a user wait until it has caught up", "more users wait than the log names"
	round("after")
	wait(t, func() bool {
		return strings.Count(log.String(), named) == 100 && strings.Contains(log.String(), counted)
	})
	text := log.String()
	if strings.Count(text, named) != 100 || !strings.Contains(text, "app=shop user=user-") || !strings.Contains(text, " in=1h0m0s") {
		t.Error(text[:min(len(text), 2000)])
	}
}
