//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

// digests are the requests for pushes that tell of several, as FCM has seen them.
type digests struct {
	mu   sync.Mutex
	seen map[string][]shown // by the ID of the push
}

// shown is what such a push shows, and how many it tells of by its data.
type shown struct{ count, title, body, token string }

func (d *digests) see(body []byte) {
	var request struct {
		Message struct {
			Token        string
			Data         map[string]string
			Notification struct{ Title, Body string }
		}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return // the stand-in refuses it
	}
	m := request.Message
	if m.Data[push.DigestKey] == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen == nil {
		d.seen = map[string][]shown{}
	}
	id := m.Data["pushpace_id"]
	d.seen[id] = append(d.seen[id], shown{m.Data[push.DigestKey], m.Notification.Title, m.Notification.Body, m.Token})
}

// tellingDigest is a digest whose text names the titles that it has room for. These are to be
// the IDs, for the judge.
func tellingDigest(key string) *push.Digest {
	return &push.Digest{Key: key, Title: "{count} news", Body: "{first}, {second}, {third} and {more}"}
}

// A worker is killed again and again while notifications join others. Each ends once; what
// has joined is told of in one push, which counts it, and which is the same when it is sent
// again.
func TestDigestsSurviveKills(t *testing.T) {
	aboutProcesses(t, "takes many seconds")
	t.Parallel()
	const users, each, keys, kills = 20, 60, 4, 8
	const lasts, gap, sending = 4 * time.Second, 400 * time.Millisecond, 100 * time.Millisecond
	c := newCrashSite(t, throttle.Policy{MinGap: gap}, sending)
	workers := []*program{c.serve(t), c.serve(t), c.serve(t)}
	producer := push.NewProducer(c.client, "", 0)
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
					Digest:  tellingDigest(fmt.Sprint("key-", i%keys)),
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
		if err := (*victim).cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-(*victim).done
		*victim = start(t, c.setup, "serve")
	}
	producers.Wait()
	c.drained(t, users*each)
	// what a killed worker had in hand comes back though its notification may have ended
	if !eventually.Within(eventually.Patience, func() bool { return len(c.inHand(t)) == 0 }) {
		t.Errorf("%q are in hand still", c.inHand(t))
	}
	for _, w := range workers {
		w.terminate(t)
		if got := w.wait(t, 25*time.Second); got != exitDone {
			t.Errorf("exit status %d: %s", got, &w.stderr)
		}
	}
	audit := start(t, c.setup, "audit", "--json")
	if status := audit.wait(t, 10*time.Second); status != exitDone {
		t.Errorf("audit: exit status %d: %s%s", status, &audit.stdout, &audit.stderr)
	}

	records, sent := ledger.NewRecords(c.client, "", 0), c.sent()
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
	c.judgeTold(t, told, sent)
	t.Logf("%v, %d pushes, %d of them again", ends, c.delivered(), c.delivered()-len(sent))
}

// judgeTold compares the pushes that tell of several with who has joined whom: what was sent
// counts all of them.
func (d *digests) judgeTold(t *testing.T, told map[string][]string, sent map[string]bool) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, pushes := range d.seen {
		others := told[id]
		first := pushes[0]
		if count := strconv.Itoa(1 + len(others)); first.count != count || !strings.HasPrefix(first.title, count+" ") {
			t.Errorf("the push %s tells of %+v, and %q have joined it", id, first, others)
		}
		names, _, _ := strings.Cut(first.body, " and ")
		for i, name := range strings.Split(names, ", ") {
			if name != "" && name != id && !slices.Contains(others, name) || i == 0 && name != id {
				t.Errorf("the push %s says %q, and %q have joined it", id, first.body, others)
			}
		}
		for _, again := range pushes {
			if again != first {
				t.Errorf("the push %s says %+v, and then %+v", id, first, again)
			}
		}
	}
	for id := range told {
		if sent[id] && len(d.seen[id]) == 0 {
			t.Errorf("%q have joined %s, whose push tells of none", told[id], id)
		}
	}
}
