//go:build unix

package main

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// soonBack is within what a killed worker's jobs are back on the queue, on a machine
// that is busy with other tests: on a quiet one it is 10 s.
const soonBack = 20 * time.Second

// inHand are the IDs of the jobs that workers have, or had when they were killed.
func (c *crashSite) inHand(t *testing.T) []string {
	t.Helper()
	ids, err := c.client.LRange(t.Context(), asynqwire.QueueKey(push.Default.Queue(), "active"), 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// What a killed worker has in hand is soon known as not being sent: it can be
// cancelled.
func TestACrashIsOverInSeconds(t *testing.T) {
	aboutProcesses(t, "takes many seconds")
	t.Parallel()
	const users = 20
	policy := throttle.Policy{MinGap: 2 * time.Second}
	c := newCrashSite(t, policy, 0)
	stop, longest := make(chan struct{}), make(chan time.Duration)
	go watchStalls(stop, longest)
	producer, records := push.NewProducer(c.client, "", 0), ledger.NewRecords(c.client, "", 0)
	limiter, err := throttle.New(c.client, throttle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { limiter.Close() })
	control := control.New(c.client, records, limiter, limits.New(policy, nil))
	killed := c.serve(t)
	var held []string
	for try := 0; len(held) < users/2; try++ {
		if try == 20 {
			t.Fatal("a worker never has that many in hand")
		}
		for i := range users {
			c.enqueue(t, producer, (try*users+i)*2000, fmt.Sprintf("user-%d-%d", try, i)) // of no other fate than to be sent
			c.enqueue(t, producer, (try*users+i)*2000+1000, fmt.Sprintf("user-%d-%d", try, i))
		}
		held = c.inHand(t)
	}
	if err := killed.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-killed.done
	gone := time.Now()
	held = c.inHand(t)
	if err := control.Pause(t.Context(), pause.Pause{App: "shop"}); err != nil { // so that no other worker sends it
		t.Fatal(err)
	}
	other := c.serve(t)
	for _, id := range held {
		if !eventually.Within(time.Minute, func() bool { return control.Cancel(t.Context(), push.Ref{ID: id}) == nil }) {
			t.Errorf("%s, which the killed worker had, cannot be cancelled", id)
		}
	}
	took := time.Since(gone)
	close(stop)
	if stall := <-longest; took > soonBack+stall {
		t.Errorf("it takes %s until all of %d can be cancelled, with a stall of %s", took, len(held), stall)
	}
	t.Logf("%d were in hand, all can be cancelled after %s", len(held), took)
	other.terminate(t)
	if got := other.wait(t, 25*time.Second); got != exitDone {
		t.Errorf("exit status %d: %s", got, &other.stderr)
	}
}

// A worker is stopped for so long that another one takes over what it has in hand, and
// goes on. It sends nothing of that, and takes nothing from the other.
func TestAStoppedWorkerSendsNothingTwice(t *testing.T) {
	aboutProcesses(t, "takes many seconds")
	t.Parallel()
	const users, each = 40, 30
	c := newCrashSite(t, throttle.Policy{MinGap: time.Second}, 2*time.Millisecond)
	producer := push.NewProducer(c.client, "", 0)
	stopped, other := c.serve(t), c.serve(t)
	for i := range users * each {
		c.enqueue(t, producer, 1000*i, fmt.Sprintf("user-%d", i%users)) // of no other fate than to be sent
	}
	if !eventually.Within(time.Minute, func() bool { return c.delivered() > 3*users }) {
		t.Fatalf("%d are sent", c.delivered())
	}
	signal := func(s syscall.Signal) time.Time {
		if err := stopped.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		return time.Now()
	}
	at := signal(syscall.SIGSTOP)
	held := c.inHand(t)
	sent := c.delivered()
	passed := time.NewTimer(20 * time.Second)
	defer passed.Stop()
	<-passed.C
	again := signal(syscall.SIGCONT)
	if c.delivered() == sent {
		t.Error("the other worker sends nothing meanwhile")
	}
	c.drained(t, users*each)
	first, twice, late := map[string]time.Time{}, 0, 0
	for _, e := range slices.Concat(c.apns.Ledger().Entries(), c.fcm.Ledger().Entries()) {
		switch before, known := first[e.Notification]; {
		case !known:
			first[e.Notification] = e.At
		case before.Before(at.Add(5 * time.Second)): // it was in flight: the other cannot have had it
			twice++
		default:
			late++
			t.Logf("%s is sent at %s and at %s; the worker was stopped from %s to %s", e.Notification, before, e.At, at, again)
		}
	}
	// One may be between the last look at the sign of life and the connection.
	if late > 1 || len(first) != users*each {
		t.Errorf("%d of %d are sent, and %d twice that were not in flight at the stop", len(first), users*each, late)
	}
	t.Logf("%d were in hand, %d were sent twice that were in flight, %d that were not", len(held), twice, late)
	for _, p := range []*program{stopped, other} {
		p.terminate(t)
		if got := p.wait(t, 25*time.Second); got != exitDone {
			t.Errorf("exit status %d: %s", got, &p.stderr)
		}
	}
}
