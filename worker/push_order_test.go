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
			r.inOrder(t, n, func() map[int]standin.Answer { return map[int]standin.Answer{1: c.answer} })
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
	for _, n := range []int{6, 200} {
		r.inOrder(t, n, func() map[int]standin.Answer {
			fails := map[int]standin.Answer{}
			for i := range n {
				if rand.IntN(6) == 0 {
					fails[i] = answers[rand.IntN(len(answers))]
				}
			}
			return fails
		})
	}
}

// inOrder has bursts of n pushes, of which fails draws the failures, until the others are admitted in
// order, but at most three: on a stalled machine one push may pass the one before it.
func (r *rig) inOrder(t *testing.T, n int, fails func() map[int]standin.Answer) {
	t.Helper()
	const tries = 3
	for range tries {
		failing := fails()
		order := r.leave(t, r.bursts, n, failing)
		r.bursts++
		if len(order) != n-len(failing) {
			t.Fatalf("%d of %d pushes without a failure were admitted", len(order), n-len(failing))
		}
		if slices.IsSorted(order) {
			return
		}
		t.Logf("admitted in the order %v", order)
	}
	t.Errorf("%d bursts of %d were admitted out of order", tries, n)
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
