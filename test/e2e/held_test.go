//go:build e2e && unix

package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
)

// A worker that is killed while what was held comes back leaves the rest to the other
// one: nothing is lost, and sent twice is at most what was being sent.
func TestAWorkerIsKilledWhileWhatWasHeldReturns(t *testing.T) {
	t.Parallel()
	const n = 6000
	c := rig.NewCrashSite(t, throttle.Policy{}, 20*time.Millisecond)
	c.Env = append(c.Env, "PUSHPACE_WORKER__CONCURRENCY=8") // it takes a quarter of a minute
	c.APNs.RespondAlways(standin.Answer{Status: http.StatusServiceUnavailable})
	killed := c.Serve(t)
	producer := push.NewProducer(c.Client, "", 0)
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
			all += c.Client.ZCard(t.Context(), asynqwire.QueueKey(p.Queue(), "retry")).Val()
		}
		return all
	}
	killed.Until(t, "all held", func() bool { return asleep() == n })
	c.APNs.Recover()
	killed.Until(t, "some sent", func() bool { return c.Delivered() > n/20 })
	other := c.Serve(t)
	underWay := c.Kill(t, killed)
	if left := asleep(); left == 0 {
		t.Error("all had returned when the worker was killed")
	}
	c.Drained(t, n)
	other.Terminate(t)
	if got := other.Wait(t); got != rig.Done {
		t.Errorf("exit status %d: %s", got, &other.Stderr)
	}
	counts, err := ledger.NewRecords(c.Client, "", 0).Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sent, twice := len(c.Sent()), int64(c.Delivered()-len(c.Sent()))
	if counts.Ended[push.Delivered] != n || sent != n || twice > underWay+30 { // besides what is on its way to the stand-in
		t.Errorf("%d are sent, %d of them twice, %d were under way at the kill; counts %+v", sent, twice, underWay, counts)
	}
}
