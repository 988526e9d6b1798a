package worker_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// The limits grant the first notifications of a burst, which is enqueued in one call. The others wait in
// the order of the call.
func TestBurstIsAdmittedInOrder(t *testing.T) {
	client := oneRedis(t)
	for _, c := range []struct {
		users, jobs, first int
	}{{20, 6, 1}, {8, 20, 3}, {4, 100, 20}} {
		policy := throttle.Policy{Rates: []throttle.Rate{{Count: c.first, Period: 24 * time.Hour}}}
		r := newRig(t, client, limits.New(policy, nil))
		r.options.WaitForTurns(eventually.Patience)
		stop := r.start()
		id := func(user, n int) string { return fmt.Sprintf("of-%d-%d-%03d", c.jobs, user, n) }
		var all []*push.Notification
		for user := range c.users {
			for n := range c.jobs {
				all = append(all, &push.Notification{
					ID: id(user, n), App: "shop", User: fmt.Sprint("u", c.jobs, "-", user), Title: "hello",
					Targets: []push.Target{{Platform: push.APNs, Token: "00"}},
				})
			}
		}
		for burst := range slices.Chunk(all, c.jobs) {
			r.enqueueTogether(burst)
		}
		for user := range c.users {
			var line []string
			wait(t, func() bool {
				timeline := r.timeline(fmt.Sprint("u", c.jobs, "-", user))
				line = line[:0]
				for _, a := range timeline.Admissions[throttle.General] {
					line = append(line, a.ID)
				}
				for _, b := range timeline.Bookings {
					line = append(line, b.ID)
				}
				return len(line) == c.jobs
			})
			var want []string
			for n := range c.jobs {
				want = append(want, id(user, n))
			}
			// The granted notifications leave in any order: without a connection in time, a notification
			// is admitted again.
			slices.Sort(line[:c.first])
			if !slices.Equal(line, want) {
				t.Errorf("%d of %d go at once: %v", c.first, c.jobs, line)
			}
		}
		stop()
	}
}
