package worker_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// enqueueRanked enqueues n notifications to APNs, each to a user of its own, whose
// priorities take turns.
func (r *rig) enqueueRanked(n int) {
	r.t.Helper()
	ranks := []push.Priority{push.Bulk, push.Default, push.Critical}
	var all []*push.Notification
	for i := range n {
		note := to(fmt.Sprintf("%s-%d", ranks[i%len(ranks)], i), devices(i, apple)...)
		note.User, note.Priority = note.ID, ranks[i%len(ranks)]
		all = append(all, note)
	}
	r.enqueueTogether(all)
}

// After a provider was down each notification comes back once, and so it is after a second
// failure. The wait costs no attempt. worker/pause tests in which order they come, and
// worker/route how fast.
func TestWhatWasHeldReturns(t *testing.T) {
	t.Parallel()
	const n = 300
	const most = 16 // in flight
	r := newRig(t, realRedis(t), hourly)
	r.options.Concurrency = most
	r.hasten(time.Second, 0)
	down := standin.Answer{Status: http.StatusServiceUnavailable}
	r.apns.RespondAlways(down)
	r.start()
	began := time.Now()
	r.enqueueRanked(n)
	r.asleep(n)
	failed, away := r.apns.Count().Received, time.Since(began)
	r.apns.Recover()
	wait(t, func() bool { return r.apns.Ledger().Len() > n/4 })
	r.apns.RespondAlways(down)
	began = time.Now()
	wait(t, r.seen.isBroken)
	var sent int
	wait(t, func() bool { sent = r.apns.Ledger().Len(); return r.apns.Count().InFlight == 0 })
	r.asleep(int64(n - sent))
	again := r.apns.Count().Received - int64(sent)
	away += time.Since(began)
	r.apns.Recover()
	counts := r.settled(n)
	if counts.Ended[push.Delivered] != n || r.archived() != 0 {
		t.Errorf("counts %+v", counts)
	}

	entries := r.pushed("")
	seen := map[string]bool{}
	for _, e := range entries {
		seen[e.Notification] = true
	}
	if len(entries) != n || len(seen) != n {
		t.Errorf("%d pushes of %d notifications, want %d", len(entries), len(seen), n)
	}
	// A breaker opens after ten failures and what was in flight, and then one fails a second.
	if looks := int64(2*(10+most+60) + 2*int(away/time.Second)); failed+again > looks {
		t.Errorf("%d attempts have failed, want at most %d", failed+again, looks)
	}
}
