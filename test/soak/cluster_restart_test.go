//go:build soak && unix

package soak

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/throttle"
)

// All masters are killed at once, while notifications are handed over and sent, and start again
// with what they have written. Nothing that was accepted is lost, no limit is exceeded, and
// what is sent twice was in hand.
func TestAClusterIsKilled(t *testing.T) {
	t.Parallel()
	r := newClusterRig(t, throttle.Policy{MinGap: 100 * time.Millisecond, Rates: []throttle.Rate{{Count: 40, Period: 5 * time.Second}}})
	r.work(t, 2)
	h := newHanding(t, r)
	h.all = true
	stop := h.begin(t)
	defer stop()
	inHand := 0
	for range size(5, 1) {
		from := len(h.sent(true))
		r.workers[0].Until(t, "some are sent", func() bool { return len(h.sent(true)) >= from+size(1000, 300) })
		recorded := h.recorded(t)
		h.left = time.Now()
		for _, node := range r.nodes {
			node.Kill(t)
		}
		// what was on its way when the last was killed
		eventually.Within(time.Second, func() bool { return r.FCM.Count().InFlight == 0 })
		inHand += len(h.sent(true)) - recorded
		for _, node := range r.nodes {
			node.Restart(t)
		}
		h.back = time.Now()
		r.workers[0].Until(t, "all masters accept again", func() bool { return h.accepts(h.back) })
		t.Logf("the masters were away for %s, and their shards for %s", h.back.Sub(h.left).Round(time.Millisecond), time.Since(h.left).Round(time.Millisecond))
	}
	stop()
	r.rest(t, len(h.accepted))
	h.judgeSent(t, inHand, false)
}
