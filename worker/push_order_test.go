package worker_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// A failed push of a user does not change the order of the others, whether it is retried or not. On a
// stalled machine one push may pass another, so the test has three tries.
func TestFailedPushKeepsOrderOfOthers(t *testing.T) {
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
			const n, tries = 12, 3
			r := newRig(t, oneRedis(t), limits.New(throttle.Policy{MinGap: 200 * time.Millisecond}, nil))
			cfg, err := r.apns.WriteCredentials(t.TempDir())
			must(t, err)
			cfg.Timeout = time.Second
			sender, err := apns.New(cfg)
			must(t, err)
			t.Cleanup(func() { sender.Close() })
			r.with(sender)
			r.start()
			for try := 1; ; try++ {
				order := r.leave(t, try, n, map[int]standin.Answer{1: c.answer})
				if got := r.record(burstID(try, 1)); got.State != c.ends || len(order) != n-1 {
					t.Fatalf("of the one that failed %+v; the others %v", got, order)
				}
				if slices.IsSorted(order) {
					return
				}
				if t.Logf("they leave as %v", order); try == tries {
					t.Fatalf("%d times out of order", tries)
				}
			}
		})
	}
}

// In a burst with random failures, the pushes that do not fail leave in order.
func TestFailuresInBurstKeepOrder(t *testing.T) {
	answers := []standin.Answer{
		{Status: http.StatusServiceUnavailable}, {Status: http.StatusBadRequest, Reason: "BadCollapseId"}, {Status: http.StatusGone},
	}
	r := newRig(t, oneRedis(t), limits.New(throttle.Policy{MinGap: 30 * time.Millisecond}, nil))
	r.start()
	burst := 0
	inOrder := func(n int) bool {
		burst++
		fails := map[int]standin.Answer{}
		for i := range n {
			if rand.IntN(6) == 0 {
				fails[i] = answers[rand.IntN(len(answers))]
			}
		}
		order := r.leave(t, burst, n, fails)
		if len(order) != n-len(fails) {
			t.Fatalf("%d of %d that did not fail have left", len(order), n-len(fails))
		}
		if !slices.IsSorted(order) {
			t.Logf("they leave as %v", order)
			return false
		}
		return true
	}
	for _, n := range []int{6, 200} { // on a stalled machine one may pass another
		const tries = 3
		for try := 1; !inOrder(n); try++ {
			if try == tries {
				t.Fatalf("%d times %d leave out of order", tries, n)
			}
		}
	}
}

// burstID returns the ID of the nth notification of a burst.
func burstID(burst, n int) string { return fmt.Sprintf("m%d-%03d", burst, n) }

// leave enqueues a burst of one user's, of which fails get a failure first. It returns the order in which
// the others left.
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
	for _, e := range r.pushed("") {
		if !failed[e.Notification] && strings.HasPrefix(e.Notification, fmt.Sprintf("m%d-", burst)) {
			order = append(order, e.Notification)
		}
	}
	return order
}
