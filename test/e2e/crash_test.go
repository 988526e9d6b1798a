//go:build e2e && unix

package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/violations"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/judge"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
)

// Workers are killed three times, Redis once, and a provider fails for a while,
// while some notifications expire, are superseded and cancelled. Nothing is lost,
// nothing exceeds a limit, what is delivered twice was being sent at a kill, and
// nothing that was sent ends as not sent.
func TestCrashes(t *testing.T) {
	t.Parallel()
	const users, each, kills = 200, 25, 3
	const between = 800 // deliveries from one kill to the next
	policy := throttle.Policy{MinGap: 300 * time.Millisecond, Rates: []throttle.Rate{{Count: 10, Period: 5 * time.Second}}}
	c := rig.NewCrashSite(t, policy, 5*time.Millisecond)
	workers := []*rig.Program{c.Serve(t), c.Serve(t), c.Serve(t)}
	stop, longest := make(chan struct{}), make(chan time.Duration)
	go judge.Stalls(stop, longest)

	producer := push.NewProducer(c.Client, "", 0)
	var producers sync.WaitGroup
	for p := range 8 {
		producers.Go(func() {
			for i := p; i < users*each; i += 8 {
				c.Enqueue(t, producer, i, fmt.Sprintf("user-%d", i%users))
				if rig.FateOf(i) == rig.Cancelled {
					c.Cancel(t, producer, fmt.Sprintf("n-%d", i))
				}
			}
		})
	}
	underWay := int64(0) // at the kills
	for kill := range kills {
		before := c.Delivered()
		if !eventually.Within(3*time.Minute, func() bool { return c.Delivered() >= before+between }) {
			t.Fatalf("%d deliveries since the last kill: %s", c.Delivered()-before, &workers[kill].Stderr)
		}
		underWay += c.Kill(t, workers[kill])
		workers[kill] = c.Serve(t)
		switch kill {
		case 0:
			c.Server.Kill(t)
			c.Server.Restart(t)
		case 1:
			c.APNs.RespondAlways(standin.Answer{Status: http.StatusServiceUnavailable})
			time.AfterFunc(2*time.Second, c.APNs.Recover)
		}
	}
	producers.Wait()
	c.Drained(t, users*each)
	for _, w := range workers {
		w.Terminate(t)
		if got := w.Wait(t); got != rig.Done {
			t.Errorf("exit status %d: %s", got, &w.Stderr)
		}
	}
	close(stop)
	stall := <-longest

	audit := rig.Start(t, c.Setup, "audit", "--json")
	if status := audit.Wait(t); status != rig.Done {
		t.Errorf("audit: exit status %d: %s%s", status, &audit.Stdout, &audit.Stderr)
	}
	admitted := judge.Admissions(t, c.Client, "shop", users, c.Sent())
	if found := violations.Find(slices.Clone(admitted), policy, nil, time.Millisecond); len(found) > 0 {
		t.Errorf("%d of %d admissions exceed the limits: %+v", len(found), len(admitted), found)
	}
	// A push comes as late after its admission as the machine holds it up, and not
	// as late as what a crash leaves behind.
	c.Judge(t, users*each, underWay, policy, time.Second+stall, admitted)
}

// Workers end in time although Redis accepts and does not answer, and pushes
// that were under way end meanwhile.
func TestServeDrainsWhileRedisHangs(t *testing.T) {
	t.Parallel()
	const sent = 20
	c := rig.NewCrashSite(t, throttle.Policy{}, time.Second)
	const timeout = 2 * time.Second
	c.Env = append(c.Env, "PUSHPACE_WORKER__SHUTDOWN_TIMEOUT="+timeout.String(), "PUSHPACE_APPS__DEMO__SIMULATED=true",
		"PUSHPACE_APPS__SHOP__APNS__TIMEOUT=1.9s", "PUSHPACE_APPS__SHOP__FCM__TIMEOUT=1.9s")
	worker := c.Serve(t)
	producer := push.NewProducer(c.Client, "", 0)
	for i := range sent {
		c.Enqueue(t, producer, 2*i, fmt.Sprintf("user-%d", i))
	}
	worker.Until(t, "pushes under way", func() bool { return c.APNs.Count().InFlight > 0 })
	c.Server.Pause(t)
	resume := sync.OnceFunc(func() { c.Server.Resume(t) })
	defer resume()
	worker.Terminate(t)
	if got := worker.Wait(t); got != rig.Done || !strings.Contains(worker.Stderr.String(), "puts it back within seconds") {
		t.Errorf("exit status %d: %s", got, &worker.Stderr)
	}
	resume()
	counts, err := ledger.NewRecords(c.Client, "", 0).Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	queue, err := asynq.NewInspectorFromRedisClient(c.Client).GetQueueInfo(push.Default.Queue())
	if err != nil {
		t.Fatal(err)
	}
	if left := int64(queue.Size); counts.Accepted != sent || left < counts.Waiting() || left+counts.Ended[push.Delivered] < sent {
		t.Errorf("%d jobs are left of %+v", left, counts)
	}
}
