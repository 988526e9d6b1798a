//go:build unix

package main

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

// A worker that is killed while what was held comes back leaves the rest to the other
// one: nothing is lost, and sent twice is at most what was being sent.
func TestAWorkerIsKilledWhileWhatWasHeldReturns(t *testing.T) {
	aboutProcesses(t, "takes minutes")
	t.Parallel()
	const n = 6000
	c := newCrashSite(t, throttle.Policy{}, 20*time.Millisecond)
	c.env = append(c.env, "PUSHPACE_WORKER__CONCURRENCY=8") // it takes a quarter of a minute
	c.apns.RespondAlways(standin.Answer{Status: http.StatusServiceUnavailable})
	killed := c.serve(t)
	producer := push.NewProducer(c.client, "", 0)
	priorities := []push.Priority{push.Critical, push.Default, push.Bulk}
	for i := range n {
		if _, err := producer.Enqueue(t.Context(), &push.Notification{
			ID: fmt.Sprintf("n-%d", i), App: "shop", User: "ada", Title: "hello", Priority: priorities[i%len(priorities)],
			Targets: []push.Target{{Platform: push.APNs, Token: fmt.Sprintf("%064x", i)}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	asleep := func() (all int64) {
		for _, p := range priorities {
			all += c.client.ZCard(t.Context(), asynqwire.QueueKey(p.Queue(), "retry")).Val()
		}
		return all
	}
	killed.until(t, "all held", func() bool { return asleep() == n })
	c.apns.Recover()
	killed.until(t, "some sent", func() bool { return c.delivered() > n/20 })
	other := c.serve(t)
	underWay := c.kill(t, killed)
	if left := asleep(); left == 0 {
		t.Error("all had returned when the worker was killed")
	}
	c.drained(t, n)
	other.terminate(t)
	if got := other.wait(t, 25*time.Second); got != exitDone {
		t.Errorf("exit status %d: %s", got, &other.stderr)
	}
	counts, err := ledger.NewRecords(c.client, "", 0).Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sent, twice := len(c.sent()), int64(c.delivered()-len(c.sent()))
	if counts.Ended[push.Delivered] != n || sent != n || twice > underWay+30 { // besides what is on its way to the stand-in
		t.Errorf("%d are sent, %d of them twice, %d were under way at the kill; counts %+v", sent, twice, underWay, counts)
	}
}
