//go:build e2e && unix

package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// A worker is killed that has sent and recorded nothing of it. What it sent ends
// otherwise, one way or another, and says that it may have been sent; no user gets
// a second push within the hour that allows one.
func TestACrashGivesNoUsedSlotBack(t *testing.T) {
	t.Parallel()
	const each = 10
	policy := throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: time.Hour}}}
	c := rig.NewCrashSite(t, policy, 2*time.Second)
	producer, records := push.NewProducer(c.Client, "", 0), ledger.NewRecords(c.Client, "", 0)
	limiter, err := throttle.New(c.Client, throttle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { limiter.Close() })
	control := control.New(c.Client, records, limiter, limits.New(policy, nil))
	fates := map[string]push.State{"expires": push.Expired, "collapses": push.Superseded, "cancels": push.Cancelled}
	all := func(f func(fate string, user string)) {
		for fate := range fates {
			for i := range each {
				f(fate, fmt.Sprintf("%s-%d", fate, i))
			}
		}
	}
	const ttl = 25 * time.Second
	var expires <-chan time.Time // the last one
	enqueue := func(fate, user, id string) {
		n := &push.Notification{
			ID: id, App: "shop", User: user, Title: "hello", Category: fate,
			Targets: []push.Target{{Platform: push.APNs, Token: fmt.Sprintf("%064x", len(user))}},
		}
		switch {
		case fate == "expires" && id == "a-"+user:
			n.TTL, expires = push.Duration(ttl), time.After(ttl)
		case fate == "collapses":
			n.CollapseKey = "score"
		}
		if _, err := producer.Enqueue(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	until := func(what string, f func() bool) {
		t.Helper()
		if !eventually.Within(5*time.Minute, f) {
			t.Fatalf("not within five minutes: %s", what)
		}
	}
	record := func(id string) *ledger.Record {
		r, _, err := records.Lookup(t.Context(), ledger.Ref{ID: id})
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		return r
	}

	first := c.Serve(t)
	enqueue("warms", "warm", "warm") // a connection carries many at once when it has answered
	until("there is a connection", func() bool { return c.Delivered() == 1 })
	all(func(fate, user string) { enqueue(fate, user, "a-"+user) })
	until("all are under way", func() bool { return c.APNs.Count().InFlight == int64(each*len(fates)) })
	if err := first.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until("all are sent", func() bool { return c.Delivered() == 1+each*len(fates) })
	c.Kill(t, first)
	if err := control.Pause(t.Context(), pause.Pause{Category: "cancels"}); err != nil {
		t.Fatal(err)
	}
	all(func(fate, user string) { enqueue(fate, user, "b-"+user) })
	<-expires // before another worker has what this one had, which is soon
	second := c.Serve(t)
	all(func(fate, user string) {
		if fate == "cancels" { // a worker has held it, and given back what it may
			until("it is held", func() bool {
				status, err := control.Status(t.Context(), push.Ref{ID: "a-" + user})
				return err == nil && status.Job == "retry" && len(status.Paused) > 0
			})
			if err := control.Cancel(t.Context(), push.Ref{ID: "a-" + user}); err != nil {
				t.Errorf("cancel: %v", err)
			}
		}
		until("the first one ends", func() bool { return record("a-" + user).State.Ended() })
	})
	if _, err := control.Resume(t.Context(), pause.Pause{Category: "cancels"}); err != nil {
		t.Fatal(err)
	}
	all(func(fate, user string) {
		until("the second one waits for its slot", func() bool { return record("b-"+user).Deferrals > 0 })
		if r := record("a-" + user); r.State != fates[fate] || len(r.Outcomes) != 1 || !r.Outcomes[0].Ambiguous {
			t.Errorf("a-%s ended as %s: %+v", user, r.State, r.Outcomes)
		}
	})
	if n := c.Delivered() - 1; n != each*len(fates) {
		t.Errorf("%d pushes to %d users in an hour that allows each of them one", n, each*len(fates))
	}
	audit := rig.Start(t, c.Setup, "audit", "--json")
	if status := audit.Wait(t); status != rig.Done {
		t.Errorf("audit: exit status %d: %s%s", status, &audit.Stdout, &audit.Stderr)
	}
	second.Terminate(t)
	if got := second.Wait(t); got != rig.Done {
		t.Errorf("exit status %d: %s", got, &second.Stderr)
	}
}
