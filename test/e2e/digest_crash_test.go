//go:build e2e && unix

package e2e

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/judge"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
)

// A worker is killed again and again while notifications join others. Each ends once; what
// has joined is told of in one push, which counts it, and which is the same when it is sent
// again.
func TestDigestsSurviveKills(t *testing.T) {
	t.Parallel()
	const users, each, keys, kills = 20, 60, 4, 8
	const lasts, gap, sending = 4 * time.Second, 400 * time.Millisecond, 100 * time.Millisecond
	c := rig.NewCrashSite(t, throttle.Policy{MinGap: gap}, sending)
	workers := []*rig.Program{c.Serve(t), c.Serve(t), c.Serve(t)}
	producer := push.NewProducer(c.Client, "", 0)
	id := func(user, i int) string { return fmt.Sprintf("user-%d-%d", user, i) }
	var producers sync.WaitGroup
	for user := range users {
		producers.Go(func() {
			<-time.After(time.Duration(user) * gap / users) // so that some are being sent at any time
			tick := time.NewTicker(lasts / each)
			defer tick.Stop()
			for i := range each {
				n := &push.Notification{
					ID: id(user, i), App: "shop", User: fmt.Sprint("user-", user), Title: id(user, i), TTL: push.Duration(time.Duration(1+i%2) * time.Hour),
					Targets: []push.Target{{Platform: push.FCM, Token: fmt.Sprintf("device-%d-%d", user, i)}},
					Digest:  judge.TellingDigest(fmt.Sprint("key-", i%keys)),
				}
				if _, err := producer.Enqueue(t.Context(), n); err != nil {
					t.Errorf("%s is not accepted: %v", n.ID, err)
				}
				<-tick.C
			}
		})
	}
	for kill := range kills {
		<-time.After(rand.N(lasts * 3 / 2 / kills))
		victim := &workers[kill%len(workers)]
		if err := (*victim).Cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-(*victim).Done
		*victim = rig.Start(t, c.Setup, "serve")
	}
	producers.Wait()
	c.Drained(t, users*each)
	// what a killed worker had in hand comes back though its notification may have ended
	if !eventually.Within(eventually.Patience, func() bool { return len(c.InHand(t)) == 0 }) {
		t.Errorf("%q are in hand still", c.InHand(t))
	}
	for _, w := range workers {
		w.Terminate(t)
		if got := w.Wait(t); got != rig.Done {
			t.Errorf("exit status %d: %s", got, &w.Stderr)
		}
	}
	audit := rig.Start(t, c.Setup, "audit", "--json")
	if status := audit.Wait(t); status != rig.Done {
		t.Errorf("audit: exit status %d: %s%s", status, &audit.Stdout, &audit.Stderr)
	}

	records, sent := ledger.NewRecords(c.Client, "", 0), c.Sent()
	told := map[string][]string{} // who has joined, by the ID of whose push tells of them
	ends := map[push.State]int{}
	for user := range users {
		for i := range each {
			id := id(user, i)
			record, _, err := records.Lookup(t.Context(), ledger.Ref{ID: id})
			if err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			ends[record.State]++
			switch record.State {
			case push.Delivered:
				if !sent[id] {
					t.Errorf("%s ended as delivered, and was not sent", id)
				}
			case push.Digested:
				if sent[id] || !sent[record.Into] {
					t.Errorf("%s ended as digested into %s: of the two %t, %t were sent", id, record.Into, sent[id], sent[record.Into])
				}
				told[record.Into] = append(told[record.Into], id)
			default:
				t.Errorf("%s ended as %s: %+v", id, record.State, record)
			}
		}
	}
	counts, err := records.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if counts.Ended[push.Delivered] != int64(ends[push.Delivered]) || counts.Ended[push.Digested] != int64(ends[push.Digested]) || ends[push.Digested] < users*each/2 {
		t.Errorf("%v of %+v", ends, counts)
	}
	c.JudgeTold(t, told, sent)
	t.Logf("%v, %d pushes, %d of them again", ends, c.Delivered(), c.Delivered()-len(sent))
}
