//go:build soak && unix

package soak

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
)

// A user's hash slot moves to a new master, then the hash slot with a shard's queues and records, then
// the rest of the shard's block, while notifications are enqueued and sent. No notification is lost, no
// limit is exceeded, and notifications without a moving key leave in order.
func TestClusterIsResharded(t *testing.T) {
	t.Parallel()
	r := newClusterRig(t, throttle.Policy{MinGap: 100 * time.Millisecond, Rates: []throttle.Rate{{Count: 40, Period: 5 * time.Second}}})
	r.work(t, 2)
	h := newHanding(t, r)
	client := h.victim.Client(t)
	slotOf := func(key string) int { return int(client.ClusterKeySlot(t.Context(), key).Val()) }
	all, err := r.records.All(t.Context())
	rig.Must(t, err)
	user := h.users[h.at][0]
	number := shard.Of(len(all), "shop", user)
	own := slotOf(all[number].Key("counts"))
	users := slotOf("{" + shard.UserTag("shop", user) + "}")
	block := 16384 / len(all)
	var others []int // the master's other hash slots in the block
	for slot := number * block; slot < (number+1)*block; slot++ {
		if slot != own && slot != users && slot >= h.at*16384/3 && slot < (h.at+1)*16384/3 {
			others = append(others, slot)
		}
	}
	kept := r.keep(t, number, len(all), size(50_000, 1000))

	stop := h.begin(t)
	defer stop()
	ofUser := func(to handed) bool { return to.user == user }
	ofShard := func(to handed) bool { return shard.Of(len(all), "shop", to.user) == number }
	inHand := 0
	var moves []span
	for i, move := range []struct {
		what  string
		slots []int
		how   redistest.Moving
		of    func(handed) bool
	}{
		{"a user's hash slot", []int{users}, redistest.Moving{Keys: 1, Pause: 100 * time.Millisecond}, ofUser},
		{"the hash slot of a shard's records", []int{own}, redistest.Moving{Keys: size(200, 20), Pause: 20 * time.Millisecond}, ofShard},
		{"the rest of the shard's block", others, redistest.Moving{Keys: 100}, ofShard},
	} {
		sent := func(since time.Time, n int) {
			t.Helper()
			r.workers[0].Until(t, "they are sent", func() bool { return h.sentSince(since, move.of) >= n })
		}
		sent(time.Now(), 3)
		recorded, began := h.recorded(t)-kept, time.Now()
		redistest.Reshard(t, h.victim, r.nodes[(h.at+1)%len(r.nodes)], r.nodes, move.how, move.slots...)
		t.Logf("%s moved in %s", move.what, time.Since(began).Round(time.Millisecond))
		if i == 1 { // during the move of the shard's records, no end is recorded
			inHand = len(h.sent(true)) - recorded
		}
		sent(time.Now(), 3)
		moves = append(moves, span{began, time.Now()})
	}
	stop()
	r.rest(t, kept+len(h.accepted))
	for _, a := range h.tries {
		if a.err != nil && !ofShard(a.to) {
			t.Errorf("a notification to %s, in a shard that does not move, is not accepted: %v", a.to.user, a.err)
		}
	}
	h.judgeSent(t, inHand, false)
	meanwhile, swapped := h.swapped(func(to handed, from, upto time.Time) bool {
		return ofShard(to) && slices.ContainsFunc(moves, func(s span) bool { return from.Before(s.upto) && upto.After(s.from) })
	})
	t.Logf("pairs of a user's notifications not sent in the order of acceptance: %d with a notification in flight during a move, %d others", meanwhile, swapped)
	if swapped > len(h.accepted)/100 && !testing.Short() { // with -short the machine may be busy
		t.Errorf("of %d notifications %d pairs were not sent in the order of acceptance", len(h.accepted), swapped)
	}
}

// keep sends n notifications, each to a different user of the shard, so that the shard has n records.
func (r *clusterRig) keep(t *testing.T, number, of, n int) int {
	t.Helper()
	before := r.Delivered()
	var batch []*push.Notification
	for i, made := 0, 0; made < n; i++ {
		user := fmt.Sprint("kept-", i)
		if shard.Of(of, "shop", user) != number {
			continue
		}
		made++
		batch = append(batch, &push.Notification{ID: user, App: "shop", User: user, Title: "hello", Targets: []push.Target{{Platform: push.FCM, Token: user}}})
		if len(batch) == 500 || made == n {
			r.enqueueAll(t, batch)
			batch = nil
		}
	}
	r.workers[0].Until(t, "they are sent", func() bool { return r.Delivered() >= before+n })
	return n
}

type span struct{ from, upto time.Time }

// sentSince returns how many notifications that match the function some were enqueued after since and
// sent.
func (h *handing) sentSince(since time.Time, some func(handed) bool) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fresh := map[string]bool{}
	for _, a := range h.tries {
		if a.err == nil && a.began.After(since) && some(a.to) {
			fresh[a.id] = true
		}
	}
	for _, e := range h.FCM.Ledger().Entries() {
		if fresh[e.Notification] {
			n++
		}
	}
	return n
}

// swapped counts the pairs of a user's notifications that were not sent in the order of acceptance:
// excused are pairs for which meanwhile returns true, others are the rest.
func (h *handing) swapped(meanwhile func(to handed, from, upto time.Time) bool) (excused, others int) {
	type way struct{ began, accepted, sent time.Time }
	ways, of := map[string]*way{}, map[handed][]*way{}
	for _, a := range h.tries {
		if ways[a.id] == nil {
			ways[a.id] = &way{began: a.began}
		}
		if a.err == nil {
			ways[a.id].accepted = a.began.Add(a.took)
		}
	}
	for _, e := range h.FCM.Ledger().Entries() {
		if to, known := h.accepted[e.Notification]; known && ways[e.Notification].sent.IsZero() {
			ways[e.Notification].sent = e.At
			of[to] = append(of[to], ways[e.Notification])
		}
	}
	for to, all := range of {
		slices.SortFunc(all, func(a, b *way) int { return a.sent.Compare(b.sent) })
		for i, later := range all {
			for _, earlier := range all[i+1:] {
				switch {
				case later.began.Sub(earlier.accepted) < alike:
				case meanwhile(to, earlier.began, earlier.sent) || meanwhile(to, later.began, later.sent):
					excused++
				default:
					others++
				}
			}
		}
	}
	return excused, others
}
