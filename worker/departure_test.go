package worker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// What finds no place before a provider asks the throttle when it has one, and not twice.
func TestWhatWaitsForAPlaceAsksOnce(t *testing.T) {
	const n = 20
	overRedis(t, func(t *testing.T, client redis.UniversalClient) {
		r := newRig(t, client, limits.New(throttle.Policy{Rates: []throttle.Rate{{Count: 100, Period: time.Minute}}}, nil))
		r.options.Concurrency = 1
		r.apns.RespondAlways(standin.Answer{Delay: 50 * time.Millisecond})
		r.start()
		r.enqueue(to("first"))
		wait(t, func() bool { return r.apns.Count().InFlight == 1 })
		r.enqueueMany("more", n, apple)
		r.settled(n + 1)
		r.seen.mu.Lock()
		defer r.seen.mu.Unlock()
		if most := n + n/4; r.seen.checks > most { // some come as the last one leaves
			t.Errorf("%d ask %d times, want at most %d", n+1, r.seen.checks, most)
		}
	})
}

// What is admitted while there is no connection yet keeps its distance at the
// provider: it does not leave together with what was admitted later.
func TestAColdWorkerKeepsItsDistances(t *testing.T) {
	const users, each = 10, 3
	// a connection is there, for all but the first, later than two are admitted
	const gap, cold, tolerance = time.Second, 1500 * time.Millisecond, 400 * time.Millisecond
	overRedis(t, func(t *testing.T, client redis.UniversalClient) {
		for _, target := range []push.Target{apple, google} {
			t.Run(string(target.Platform), func(t *testing.T) {
				r := newRig(t, client, limits.New(throttle.Policy{MinGap: gap}, nil))
				r.apns.RespondAlways(standin.Answer{Delay: cold})
				r.fcm.TokenScript.RespondAlways(standin.Answer{Delay: cold})
				defer r.start()()
				for i := range each {
					for u := range users {
						n := to(fmt.Sprintf("%s-%d-%d", target.Platform, u, i), target)
						n.User = fmt.Sprintf("%s-%d", target.Platform, u)
						r.enqueue(n)
					}
				}
				wait(t, func() bool { return len(r.pushed("")) >= users*each })
				last := map[string]time.Time{}
				early := 0 // a machine that stalls has one or two, and without a look at the connection there are everybody's
				for _, e := range r.pushed("") {
					user := e.Notification[:len(e.Notification)-2]
					if before, ok := last[user]; ok && e.At.Sub(before) < gap-tolerance {
						t.Logf("%s comes %s after the one before, want %s", e.Notification, e.At.Sub(before), gap)
						early++
					}
					last[user] = e.At
				}
				if early > 2 {
					t.Errorf("%d of %d come too soon", early, users*(each-1))
				}
				for u := range users {
					for i := range each {
						id := fmt.Sprintf("%s-%d-%d", target.Platform, u, i)
						wait(t, func() bool { return r.record(id).State.Ended() })
						if record := r.record(id); record.State != push.Delivered || record.Attempts != 1 {
							t.Errorf("%s: %+v", id, record)
						}
					}
				}
			})
		}
	})
}
