package worker_test

import (
	"fmt"
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

// One push of a user that fails keeps none of the others from leaving in their order, whether
// it is sent again or not. On a machine that stands still one may pass another.
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
				id := func(i int) string { return fmt.Sprintf("m%d-%02d", try, i) }
				token := func(i int) string { return fmt.Sprintf("%032x%032x", try, i) }
				var all []*push.Notification
				for i := range n {
					all = append(all, &push.Notification{
						ID: id(i), App: "shop", User: fmt.Sprint("u", try), Title: "hello", Targets: []push.Target{{Platform: push.APNs, Token: token(i)}},
					})
				}
				r.apns.Respond(token(1), c.answer)
				r.enqueueTogether(all)
				r.settled(try * n)
				var order []string
				for _, e := range r.pushed("") {
					if e.Notification != id(1) && strings.HasPrefix(e.Notification, fmt.Sprintf("m%d-", try)) {
						order = append(order, e.Notification)
					}
				}
				if got := r.record(id(1)); got.State != c.ends || len(order) != n-1 {
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
