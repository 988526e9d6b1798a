package worker_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

// enqueueRanked enqueues n notifications to APNs, each to a different user, with alternating priorities.
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

// After an outage of a provider, and after a second one, each notification is sent once. The wait costs
// no attempt. worker/route tests how fast the notifications return.
func TestParkedNotificationsAreSentOnceAfterOutage(t *testing.T) {
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
	closings := len(r.seen.closings())
	r.apns.RespondAlways(down)
	began = time.Now()
	wait(t, func() bool { return len(r.seen.closings()) > closings })
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
	// A route closes after ten failures and the pushes in flight. Then one push fails each second.
	if looks := int64(2*(10+most+60) + 2*int(away/time.Second)); failed+again > looks {
		t.Errorf("%d attempts have failed, want at most %d", failed+again, looks)
	}
}

// A notification for two closed routes is sent on each route when it opens. The waits cost no attempts.
func TestTwoClosedRoutesReopenSeparately(t *testing.T) {
	t.Parallel()
	const n, before = 20, 12
	r := newRig(t, realRedis(t), unlimited)
	r.apns.RespondAlways(standin.Answer{Status: http.StatusServiceUnavailable})
	r.fcm.RespondAlways(standin.Answer{Status: http.StatusTooManyRequests, RetryAfter: time.Hour})
	w := r.run()
	r.enqueueMany("apple", before, apple)
	r.enqueueMany("google", before, google)
	wait(t, func() bool {
		closed := slices.DeleteFunc(w.Routes(), func(s route.Status) bool { return s.App != "shop" || s.State == route.Open })
		return len(closed) == 3 // APNs, and FCM for tokens and for FIDs
	})
	for i := range n {
		both := to(fmt.Sprint("both-", i), devices(i, apple, google)...)
		both.User = both.ID
		r.enqueue(both)
	}
	sent := func(all []standin.Entry) int {
		return len(slices.DeleteFunc(all, func(e standin.Entry) bool { return !strings.HasPrefix(e.Notification, "both-") }))
	}
	r.apns.Recover()
	wait(t, func() bool { return sent(r.apns.Ledger().Entries()) == n })
	if got := sent(r.fcm.Ledger().Entries()); got != 0 {
		t.Errorf("%d went to the provider that is closed", got)
	}
	r.fcm.Recover()
	r.resume(pause.Pause{App: "shop", Platform: push.FCM})
	wait(t, func() bool { return sent(r.fcm.Ledger().Entries()) == n })
	for i := range n {
		id := fmt.Sprint("both-", i)
		wait(t, func() bool { return r.record(id).State == push.Delivered })
		if record := r.record(id); record.Attempts > 3 { // one for each route, and a failed one that showed that APNs is down
			t.Errorf("%d attempts: %+v", record.Attempts, record)
		}
	}
}
