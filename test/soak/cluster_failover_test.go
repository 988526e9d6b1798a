//go:build soak && unix

package soak

import (
	"slices"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
)

// A replica is told to take its master's place, and the other way round, while notifications
// are handed over and sent: nothing is lost, and no limit is exceeded.
func TestAClusterFailsOverByCommand(t *testing.T) {
	t.Parallel()
	r := newReplicatedRig(t, throttle.Policy{MinGap: 100 * time.Millisecond, Rates: []throttle.Rate{{Count: 40, Period: 5 * time.Second}}})
	r.work(t, 2)
	h := newHanding(t, r)
	stop := h.begin(t)
	defer stop()
	sent := func(more int) {
		t.Helper()
		from := len(h.sent(true))
		r.workers[0].Until(t, "those on the master are sent", func() bool { return len(h.sent(true)) >= from+more })
	}
	sent(100)
	inHand, began := 0, time.Now()
	for range size(5, 1) {
		for _, next := range []*redistest.Server{r.replicas[h.at], h.victim} {
			recorded := h.recorded(t)
			h.left = time.Now()
			redistest.TakeOver(t, next)
			h.back = time.Now()
			r.workers[0].Until(t, "those on the master are accepted again", func() bool { return h.accepts(h.back) })
			inHand += len(h.sent(true)) - recorded
			sent(100)
		}
	}
	stop()
	r.rest(t, len(h.accepted))
	its := func(to handed) bool { return to.node == h.at }
	t.Logf("the last took %s; at most %s without an accept, %s without a push", h.back.Sub(h.left), h.unaccepted(began, its), h.unsent(began, its))
	h.judgeAccepts(t)
	h.judgeSent(t, inHand, false)
}

// unaccepted is the longest time from then on in which none to some was accepted.
func (h *handing) unaccepted(since time.Time, some func(handed) bool) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := []time.Time{since}
	for _, a := range h.tries {
		if accepted := a.began.Add(a.took); a.err == nil && accepted.After(since) && some(a.to) {
			at = append(at, accepted)
		}
	}
	return longest(at)
}

// unsent is the longest time from then on in which none to some was sent.
func (h *handing) unsent(since time.Time, some func(handed) bool) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := []time.Time{since}
	for _, e := range h.FCM.Ledger().Entries() {
		if to, known := h.accepted[e.Notification]; known && e.At.After(since) && some(to) {
			at = append(at, e.At)
		}
	}
	return longest(at)
}

// longest is the longest time from one instant to the next.
func longest(at []time.Time) (most time.Duration) {
	slices.SortFunc(at, time.Time.Compare)
	for i := 1; i < len(at); i++ {
		most = max(most, at[i].Sub(at[i-1]).Round(time.Millisecond))
	}
	return most
}
