//go:build soak && unix

package soak

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/violations"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/judge"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
)

// A master without a replica is killed, and restarts with all the writes that it had acknowledged.
func TestClusterLosesMaster(t *testing.T) {
	t.Parallel()
	withoutAMaster(t, outage{
		leave: (*redistest.Server).Kill, back: (*redistest.Server).Restart,
		lasts: time.Duration(size(10, 3)) * time.Second, replaced: true,
	})
}

// A master hangs: it accepts connections and never answers. Users with limits on other masters
// are still checked, even with on_outage: open.
func TestClusterMasterHangs(t *testing.T) {
	t.Parallel()
	withoutAMaster(t, outage{
		leave: (*redistest.Server).Pause, back: (*redistest.Server).Resume,
		lasts: time.Duration(size(20, 5)) * time.Second, open: true,
	})
}

// An outage describes how a master fails and returns.
type outage struct {
	leave, back func(*redistest.Server, testing.TB)
	lasts       time.Duration // least duration
	replaced    bool          // a worker that starts during the outage replaces the others
	open        bool          // limits.on_outage is open
}

// withoutAMaster enqueues for users on all masters while one master is away. The notifications on the
// other masters are accepted and sent as before. No notification is lost, no limit is exceeded, and
// only pushes in flight at the failure are sent twice.
func withoutAMaster(t *testing.T, o outage) {
	policy := throttle.Policy{MinGap: 100 * time.Millisecond, Rates: []throttle.Rate{{Count: 40, Period: 5 * time.Second}}}
	r := newClusterRig(t, policy)
	if o.open {
		r.Env = append(r.Env, "PUSHPACE_LIMITS__ON_OUTAGE=open")
	}
	r.work(t, 2)
	h := newHanding(t, r)
	stop := h.begin(t)
	defer stop()
	// rate waits until 100 more notifications on the other masters are sent, and returns the rate
	// per second. The test sets no bound for the rate, since the machine has other work. The failed
	// master returns later, so none of the 100 can have waited for it.
	rate := func(what string, least time.Duration) float64 {
		t.Helper()
		from, began := len(h.sent(false)), time.Now()
		n := func() int { return len(h.sent(false)) - from }
		if !eventually.Within(eventually.Patience, func() bool { return time.Since(began) >= least && n() >= 100 }) {
			t.Fatalf("%s: %d notifications on the other masters are sent in %s", what, n(), time.Since(began))
		}
		return float64(n()) / time.Since(began).Seconds()
	}
	rate("at first", 0) // afterwards scripts are loaded, and all clients connected
	before := rate("before", o.lasts/2)

	recorded := h.recorded(t)
	h.left = time.Now()
	o.leave(h.victim, t)
	meanwhile := rate("meanwhile", o.lasts/2)
	var ending []*rig.Program
	if o.replaced {
		ending, r.workers = r.workers, nil
		r.work(t, 1)
		for _, w := range ending { // from now on these workers pull nothing
			w.Terminate(t)
			w.Until(t, "it ends", func() bool { return w.Said("stopping") > 0 })
		}
	}
	later := rate("later", o.lasts/2)
	inHand := len(h.sent(true)) - recorded
	h.back = time.Now()
	o.back(h.victim, t)
	r.workers[0].Until(t, "those on the master are accepted again", func() bool { return h.accepts(h.back) })
	stop()
	r.rest(t, len(h.accepted))
	for _, w := range ending {
		if status := w.Wait(t); status != rig.Done {
			t.Errorf("exit status %d: %s", status, &w.Stderr)
		}
	}
	t.Logf("the others' were sent at %.0f a second, at %.0f and %.0f meanwhile", before, meanwhile, later)
	h.judgeAccepts(t)
	h.judgeSent(t, inHand, o.open)
}

// A handing enqueues notifications for the users of each master, and records the results.
type handing struct {
	*clusterRig
	users      [3][]string
	victim     *redistest.Server // the failing master, away from left to back
	at         int               // index of victim in nodes
	left, back time.Time

	mu       sync.Mutex
	accepted map[string]handed // by ID
	tries    []try
}

// A handed describes an enqueued notification: its user, and the index of the user's master.
type handed struct {
	user string
	node int
	at   time.Time // when it was accepted
}

// A try is one attempt to enqueue a notification.
type try struct {
	id    string
	to    handed
	began time.Time
	took  time.Duration
	err   error
}

// newHanding chooses the master that will fail, but not the one with the operators' settings: while
// that is away, a starting worker takes no job.
func newHanding(t *testing.T, r *clusterRig) *handing {
	t.Helper()
	h := &handing{clusterRig: r, users: r.usersOf(t), accepted: map[string]handed{}}
	said := []*redistest.Server{redistest.NodeOf(t, r.nodes, "{pauses}"), redistest.NodeOf(t, r.nodes, "{limits}")}
	h.at = slices.IndexFunc(r.nodes, func(node *redistest.Server) bool { return !slices.Contains(said, node) })
	h.victim = r.nodes[h.at]
	return h
}

// usersOf returns for each node the users with all keys on that node, as some users have their
// timeline on a different master than their shard's queues.
func (r *clusterRig) usersOf(t *testing.T) (all [3][]string) {
	t.Helper()
	shards, err := r.records.All(t.Context())
	rig.Must(t, err)
	for i := range 60 {
		user := fmt.Sprint("user-", i)
		its := redistest.NodeOf(t, r.nodes, shards[shard.Of(len(shards), "shop", user)].Key("counts"))
		if r.masterOf(t, user) == its {
			at := slices.Index(r.nodes, its)
			all[at] = append(all[at], user)
		}
	}
	return all
}

// begin enqueues notifications for the users of each master until the returned function is called.
func (h *handing) begin(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var producers sync.WaitGroup
	for node := range h.nodes {
		for range 2 {
			producers.Go(func() { h.produce(ctx, t, node) })
		}
	}
	return func() { cancel(); producers.Wait() }
}

// masterOf returns the master that has the user's timeline at the start.
func (r *clusterRig) masterOf(t *testing.T, user string) *redistest.Server {
	t.Helper()
	return redistest.NodeOf(t, r.nodes, "{"+shard.UserTag("shop", user)+"}")
}

// produce enqueues three notifications for one user, then for the next user, until ctx ends. It repeats
// each until it is accepted.
func (h *handing) produce(ctx context.Context, t *testing.T, node int) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for range 3 {
			to := handed{user: h.users[node][i%len(h.users[node])], node: node}
			id := rand.Text()
			n := notificationTo(to.user, id)
			if !eventually.Within(eventually.Patience, func() bool { return h.try(t, n, to) }) {
				t.Errorf("a notification on master %d is not accepted", node)
				return
			}
			h.mu.Lock()
			to.at = time.Now()
			h.accepted[id] = to
			h.mu.Unlock()
		}
	}
}

// notificationTo returns a notification to the user, with that ID.
func notificationTo(user, id string) *push.Notification {
	return &push.Notification{ID: id, App: "shop", User: user, Title: "hello", Targets: []push.Target{{Platform: push.FCM, Token: id}}}
}

func (h *handing) try(t *testing.T, n *push.Notification, to handed) bool {
	began := time.Now()
	_, err := h.producer.Enqueue(t.Context(), n)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries = append(h.tries, try{n.ID, to, began, time.Since(began), err})
	return err == nil
}

// accepts reports whether an enqueue to the failing master that began after since has succeeded.
func (h *handing) accepts(since time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.tries, func(a try) bool { return a.to.node == h.at && a.err == nil && a.began.After(since) })
}

// sent returns, by ID, when notifications were sent: the failing master's, or if victims is false the
// other masters'.
func (h *handing) sent(victims bool) map[string][]time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	sent := map[string][]time.Time{}
	for _, e := range h.FCM.Ledger().Entries() {
		if to, known := h.accepted[e.Notification]; known && (to.node == h.at) == victims {
			sent[e.Notification] = append(sent[e.Notification], e.At)
		}
	}
	return sent
}

// recorded counts the notifications recorded as delivered on the failing master.
func (h *handing) recorded(t *testing.T) (n int) {
	t.Helper()
	shards, err := h.records.All(t.Context())
	rig.Must(t, err)
	counts, err := h.records.PrimaryCounts(t.Context())
	rig.Must(t, err)
	for i, at := range shards {
		if redistest.NodeOf(t, h.nodes, at.Key("counts")) == h.victim {
			n += int(counts[i].Ended[push.Delivered])
		}
	}
	return n
}

// judgeAccepts checks that notifications on the other masters are accepted as before, and that on the
// failing master few calls after the first wait for the time-out.
func (h *handing) judgeAccepts(t *testing.T) {
	t.Helper()
	var before, others, refused []time.Duration
	var first time.Duration // until the failing master accepts the first notification again
	for _, a := range h.tries {
		switch during := a.began.After(h.left) && a.began.Before(h.back); {
		case a.to.node != h.at && a.err != nil:
			t.Errorf("one on master %d is not accepted: %v", a.to.node, a.err)
		case a.to.node != h.at && during:
			others = append(others, a.took)
		case a.to.node != h.at && a.began.Before(h.left):
			before = append(before, a.took)
		case a.to.node == h.at && a.err != nil && during && a.began.After(h.left.Add(redisTimeout)):
			refused = append(refused, a.took)
		case a.to.node == h.at && a.err == nil && a.began.After(h.back) && first == 0:
			first = a.began.Add(a.took).Sub(h.left)
		}
	}
	t.Logf("accepted within %s by the median and %s for 99 %%, and %s and %s meanwhile; refused within %s and %s; the master was away for %s, and its shards for %s",
		share(before, 50), share(before, 99), share(others, 50), share(others, 99), share(refused, 50), share(refused, 99), h.back.Sub(h.left), first)
	if got := share(others, 90); got > redisTimeout/2 {
		t.Errorf("a tenth of the others' are accepted after %s and more", got)
	}
	if got := share(refused, 50); got > redisTimeout/4 {
		t.Errorf("half of those on a master that is away are refused after %s and more", got)
	}
}

// share returns the duration that this percentage of all does not exceed; 0 for an empty list.
func share(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return all[min(len(all)-1, len(all)*percent/100)].Round(10 * time.Microsecond)
}

// judgeSent checks that at most inHand notifications on the failing master were sent twice, none on the
// other masters, and calls judgeAdmitted for all.
func (h *handing) judgeSent(t *testing.T, inHand int, unchecked bool) {
	t.Helper()
	all, twice := h.sent(true), 0
	for _, at := range all {
		twice += len(at) - 1
	}
	if twice > inHand {
		t.Errorf("%d are sent twice, and %d were in hand", twice, inHand)
	}
	for id, at := range h.sent(false) {
		if all[id] = at; len(at) > 1 {
			t.Errorf("%s is sent %d times, and its master was there", id, len(at))
		}
	}
	h.judgeAdmitted(t, all, unchecked)
	t.Logf("%d sent twice, %d in hand", twice, inHand)
}

// judgeAdmitted checks that each notification was sent, and admitted by its user's limits; on the
// failing master pushes may be unchecked if unchecked is true. all has the times of the pushes.
func (h *handing) judgeAdmitted(t *testing.T, all map[string][]time.Time, unchecked bool) {
	t.Helper()
	sent, of := map[string]bool{}, map[string]int{} // number of notifications by user
	for id, to := range h.accepted {
		if sent[id] = len(all[id]) > 0; !sent[id] {
			t.Errorf("%s is lost: it was accepted on master %d", id, to.node)
		}
		of[to.user]++
	}
	var users []string // users without unchecked pushes
	for node := range h.nodes {
		if node != h.at || !unchecked {
			users = append(users, h.users[node]...)
		}
	}
	admitted := judge.AdmissionsOf(t, h.Client, "shop", users, sent)
	known := map[string]int{}
	for _, a := range admitted {
		known[a.User]++
	}
	for _, user := range users { // a timeline has only its newest admissions
		if n := min(of[user], throttle.MaxEntries) - known[user]; n > 0 {
			t.Errorf("%d of %s's are sent unchecked", n, user)
		}
	}
	found := violations.Find(admitted, h.policy, nil, time.Millisecond)
	t.Logf("%d accepted, %d lost, %d violations", len(h.accepted), len(h.accepted)-len(all), len(found))
	if len(found) > 0 {
		t.Errorf("%d of %d admissions exceed the limits: %+v", len(found), len(admitted), found[0])
	}
}
