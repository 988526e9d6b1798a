package worker_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// manyAnHour keeps the admissions of a test countable.
var manyAnHour = throttle.Rate{Count: 1000, Period: time.Hour}

// A failed push does not change the order of the user's other pushes, whether it is retried or not.
func TestFailedPushKeepsOrderOfOtherPushes(t *testing.T) {
	for name, c := range map[string]struct {
		answer standin.Answer
		ends   push.State
	}{
		"a 503":       {standin.Answer{Status: http.StatusServiceUnavailable}, push.Delivered},
		"a time-out":  {standin.Answer{Delay: time.Hour}, push.Delivered},
		"a rejection": {standin.Answer{Status: http.StatusBadRequest, Reason: "BadCollapseId"}, push.Rejected},
		"a dead one":  {standin.Answer{Status: http.StatusGone}, push.Undeliverable},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 12
			policy := throttle.Policy{MinGap: 200 * time.Millisecond, Rates: []throttle.Rate{manyAnHour}}
			r := newRig(t, oneRedis(t), limits.New(policy, nil))
			r.options.WaitForTurns(eventually.Patience)
			cfg, err := r.apns.WriteCredentials(t.TempDir())
			must(t, err)
			cfg.Timeout = time.Second
			sender, err := apns.New(cfg)
			must(t, err)
			t.Cleanup(func() { sender.Close() })
			r.with(sender)
			r.start()
			r.inOrder(t, 0, n, map[int]standin.Answer{1: c.answer})
			if got := r.record(burstID(0, 1)); got.State != c.ends {
				t.Errorf("the failed push ended as %+v", got)
			}
		})
	}
}

// In a burst with random failures, the pushes that do not fail leave in order.
func TestFailuresInBurstKeepOrder(t *testing.T) {
	answers := []standin.Answer{
		{Status: http.StatusServiceUnavailable}, {Status: http.StatusBadRequest, Reason: "BadCollapseId"}, {Status: http.StatusGone},
	}
	policy := throttle.Policy{MinGap: 30 * time.Millisecond, Rates: []throttle.Rate{manyAnHour}}
	r := newRig(t, oneRedis(t), limits.New(policy, nil))
	r.options.WaitForTurns(eventually.Patience)
	r.start()
	for burst, n := range []int{6, 200} {
		fails := map[int]standin.Answer{}
		for i := range n {
			if rand.IntN(6) == 0 {
				fails[i] = answers[rand.IntN(len(answers))]
			}
		}
		r.inOrder(t, burst, n, fails)
	}
}

// inOrder expects that a burst of n pushes, of which fails fail at first, is admitted in order. On a
// machine that stalls, one push in 50 may have no connection in time, and swap with the next.
func (r *rig) inOrder(t *testing.T, burst, n int, fails map[int]standin.Answer) {
	t.Helper()
	order := r.leave(t, burst, n, fails)
	swapped := 0
	sorted := slices.Clone(order)
	for i := 1; i < len(sorted); i++ {
		if sorted[i] < sorted[i-1] {
			sorted[i], sorted[i-1] = sorted[i-1], sorted[i]
			swapped++
		}
	}
	if len(order) != n-len(fails) || swapped > max(1, n/50) || !slices.IsSorted(sorted) {
		t.Errorf("%d pushes without a failure were admitted in the order %v", n-len(fails), order)
	}
}

// burstID returns the ID of the nth notification of a burst.
func burstID(burst, n int) string { return fmt.Sprintf("m%d-%03d", burst, n) }

// leave enqueues a burst to one user; fails are the first answers to some of its pushes. It returns the
// order in which the others were admitted.
func (r *rig) leave(t *testing.T, burst, n int, fails map[int]standin.Answer) (order []string) {
	t.Helper()
	token := func(i int) string { return fmt.Sprintf("%032x%032x", burst, i) }
	var all []*push.Notification
	for i := range n {
		all = append(all, &push.Notification{
			ID: burstID(burst, i), App: "shop", User: fmt.Sprint("u", burst), Title: "hello", Targets: []push.Target{{Platform: push.APNs, Token: token(i)}},
		})
	}
	failed := map[string]bool{}
	for i, answer := range fails {
		r.apns.Respond(token(i), answer)
		failed[burstID(burst, i)] = true
	}
	before, err := r.records.Counts(t.Context())
	must(t, err)
	r.enqueueTogether(all)
	r.settled(int(before.Accepted) + n)
	for _, a := range r.timeline(fmt.Sprint("u", burst)).Admissions[throttle.General] {
		if !failed[a.ID] {
			order = append(order, a.ID)
		}
	}
	return order
}

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
