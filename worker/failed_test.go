package worker_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// One push of a user that fails keeps none of the others from leaving in their order, whether
// it is sent again or not.
func TestAFailureKeepsTheOrder(t *testing.T) {
	for name, c := range map[string]struct {
		answer standin.Answer
		ends   push.State
	}{
		"a 503":       {standin.Answer{Status: http.StatusServiceUnavailable}, push.Delivered},
		"a time-out":  {standin.Answer{Delay: time.Hour}, push.Delivered},
		"a rejection": {standin.Answer{Status: http.StatusBadRequest, Reason: "BadCollapseId"}, push.Rejected},
		"a dead one":  {standin.Answer{Status: http.StatusGone}, push.Undeliverable},
	} {
		for _, n := range []int{6, 40} {
			t.Run(fmt.Sprint(name, " of ", n), func(t *testing.T) {
				client := oneRedis(t)
				gap := 300 * time.Millisecond
				if n > 6 {
					gap = 50 * time.Millisecond
				}
				r := newRig(t, client, limits.New(throttle.Policy{MinGap: gap}, nil))
				cfg, err := r.apns.WriteCredentials(t.TempDir())
				must(t, err)
				cfg.Timeout = time.Second
				sender, err := apns.New(cfg)
				must(t, err)
				t.Cleanup(func() { sender.Close() })
				r.with(sender)
				r.start()
				var all []*push.Notification
				for i := range n {
					all = append(all, &push.Notification{
						ID: fmt.Sprintf("m%02d", i), App: "shop", User: "u1", Title: "hello", Targets: []push.Target{{Platform: push.APNs, Token: fmt.Sprintf("%064x", i)}},
					})
				}
				r.apns.Respond(fmt.Sprintf("%064x", 1), c.answer)
				r.enqueueTogether(all)
				r.settled(n)
				var order []string
				for _, e := range r.pushed("") {
					if e.Notification != "m01" {
						order = append(order, e.Notification)
					}
				}
				if !slices.IsSorted(order) || len(order) != n-1 {
					t.Errorf("they leave as %v; the first: %+v", order, r.record("m00"))
				}
				if got := r.record("m01"); got.State != c.ends {
					t.Errorf("the one that failed: %+v", got)
				}
			})
		}
	}
}
