//go:build e2e && unix

package e2e

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/judge"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// What a killed worker has in hand is soon known as not being sent: it can be
// cancelled.
func TestACrashIsOverInSeconds(t *testing.T) {
	t.Parallel()
	const users = 20
	policy := throttle.Policy{MinGap: 2 * time.Second}
	c := rig.NewCrashSite(t, policy, 0)
	stop, longest := make(chan struct{}), make(chan time.Duration)
	go judge.Stalls(stop, longest)
	producer, records := push.NewProducer(c.Client, "", 0), ledger.NewRecords(c.Client, "", 0)
	limiter, err := throttle.New(c.Client, throttle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { limiter.Close() })
	control := control.New(c.Client, records, limiter, limits.New(policy, nil))
	killed := c.Serve(t)
	var held []string
	for try := 0; len(held) < users/2; try++ {
		if try == 20 {
			t.Fatal("a worker never has that many in hand")
		}
		for i := range users {
			c.Enqueue(t, producer, (try*users+i)*2000, fmt.Sprintf("user-%d-%d", try, i)) // of no other fate than to be sent
			c.Enqueue(t, producer, (try*users+i)*2000+1000, fmt.Sprintf("user-%d-%d", try, i))
		}
		held = c.InHand(t)
	}
	if err := killed.Cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-killed.Done
	gone := time.Now()
	held = c.InHand(t)
	if err := control.Pause(t.Context(), pause.Pause{App: "shop"}); err != nil { // so that no other worker sends it
		t.Fatal(err)
	}
	other := c.Serve(t)
	for _, id := range held {
		if !eventually.Within(time.Minute, func() bool { return control.Cancel(t.Context(), push.Ref{ID: id}) == nil }) {
			t.Errorf("%s, which the killed worker had, cannot be cancelled", id)
		}
	}
	took := time.Since(gone)
	close(stop)
	if stall := <-longest; took > rig.SoonBack+stall {
		t.Errorf("it takes %s until all of %d can be cancelled, with a stall of %s", took, len(held), stall)
	}
	t.Logf("%d were in hand, all can be cancelled after %s", len(held), took)
	other.Terminate(t)
	if got := other.Wait(t); got != rig.Done {
		t.Errorf("exit status %d: %s", got, &other.Stderr)
	}
}

// A worker is stopped for so long that another one takes over what it has in hand, and
// goes on. It sends nothing of that, and takes nothing from the other.
func TestAStoppedWorkerSendsNothingTwice(t *testing.T) {
	t.Parallel()
	const users, each = 40, 30
	c := rig.NewCrashSite(t, throttle.Policy{MinGap: time.Second}, 2*time.Millisecond)
	producer := push.NewProducer(c.Client, "", 0)
	stopped, other := c.Serve(t), c.Serve(t)
	for i := range users * each {
		c.Enqueue(t, producer, 1000*i, fmt.Sprintf("user-%d", i%users)) // of no other fate than to be sent
	}
	if !eventually.Within(time.Minute, func() bool { return c.Delivered() > 3*users }) {
		t.Fatalf("%d are sent", c.Delivered())
	}
	signal := func(s syscall.Signal) time.Time {
		if err := stopped.Cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		return time.Now()
	}
	at := signal(syscall.SIGSTOP)
	held := c.InHand(t)
	sent := c.Delivered()
	passed := time.NewTimer(20 * time.Second)
	defer passed.Stop()
	<-passed.C
	again := signal(syscall.SIGCONT)
	if c.Delivered() == sent {
		t.Error("the other worker sends nothing meanwhile")
	}
	c.Drained(t, users*each)
	first, twice, late := map[string]time.Time{}, 0, 0
	for _, e := range slices.Concat(c.APNs.Ledger().Entries(), c.FCM.Ledger().Entries()) {
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
	for _, p := range []*rig.Program{stopped, other} {
		p.Terminate(t)
		if got := p.Wait(t); got != rig.Done {
			t.Errorf("exit status %d: %s", got, &p.Stderr)
		}
	}
}
