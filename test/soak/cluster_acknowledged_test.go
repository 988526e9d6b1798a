//go:build soak && unix

package soak

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
)

// A master is killed, and a replica without the master's last writes replaces it. The notifications
// of these writes are lost completely: the sums are exact, and if a producer repeats such a
// notification, it is delivered once.
func TestClusterLosesOnlyUnreplicatedWrites(t *testing.T) {
	t.Parallel()
	h, since := losingAMaster(t, false)
	again := 0
	for id, to := range h.accepted {
		if to.node != h.at || to.at.Before(since) {
			continue
		}
		receipt, err := h.producer.Enqueue(t.Context(), notificationTo(to.user, id))
		rig.Must(t, err)
		if !receipt.Known {
			again++
		}
	}
	h.rest(t, len(h.accepted))
	sent := h.sent(true)
	lost, twice := 0, 0
	for id, to := range h.accepted {
		if to.node != h.at {
			continue
		}
		switch n := len(sent[id]); {
		case n == 0:
			lost++
		case n > 1:
			twice++
		}
	}
	t.Logf("%d were accepted while no replica listened, and lost; handed over again, all were sent, %d of all twice", again, twice)
	if again == 0 {
		t.Error("nothing is lost, and no replica had it")
	}
	if lost > 0 {
		t.Errorf("%d are lost that a replica had, or that were handed over again", lost)
	}
}

// With acknowledged writes no notification is accepted while the master has no replica. The loss of
// the master loses no accepted notification, and causes no push that exceeds a limit.
func TestClusterKeepsAcknowledgedWrites(t *testing.T) {
	t.Parallel()
	h, since := losingAMaster(t, true)
	meanwhile := 0
	for _, to := range h.accepted {
		if to.node == h.at && to.at.After(since.Add(redisTimeout)) && to.at.Before(h.left) {
			meanwhile++
		}
	}
	if meanwhile > 0 {
		t.Errorf("%d are accepted though no replica listens", meanwhile)
	}
	h.rest(t, len(h.accepted))
	h.judgeSent(t, len(h.sent(true)), false) // the number of claimed jobs is unknown, so any may be sent twice
}

// losingAMaster kills a master after its replica has missed all writes since the time since. It
// returns when the replica has replaced the master and the producers have stopped.
func losingAMaster(t *testing.T, acknowledged bool) (h *handing, since time.Time) {
	t.Helper()
	r := newReplicatedRig(t, throttle.Policy{MinGap: 100 * time.Millisecond, Rates: []throttle.Rate{{Count: 40, Period: 5 * time.Second}}},
		redistest.Args("--cluster-replica-validity-factor", "0")) // a restarted replica may replace its master
	if acknowledged {
		r.acknowledge(t)
	}
	r.work(t, 2)
	h = newHanding(t, r)
	stop := h.begin(t)
	defer stop()
	r.workers[0].Until(t, "notifications on the master are sent", func() bool { return len(h.sent(true)) >= 100 })
	replica := r.replicas[h.at]
	replica.Kill(t) // a paused replica would read the missed writes later
	since = time.Now()
	r.workers[0].Until(t, "the replica misses writes for a while", func() bool {
		if acknowledged { // by then the master refuses writes, for lack of a replica
			return time.Since(since) > redisTimeout+time.Second
		}
		return h.acceptedSince(since) > 10
	})
	h.left = time.Now()
	h.victim.Kill(t)
	replica.Restart(t)
	redistest.Promoted(t, replica)
	if acknowledged { // the new master needs a replica of its own
		h.victim.Restart(t)
	}
	h.back = time.Now()
	r.workers[0].Until(t, "those on the master are accepted again", func() bool { return h.accepts(h.back) })
	stop()
	t.Logf("the replica was the master after %s", h.back.Sub(h.left).Round(time.Millisecond))
	return h, since
}

// acceptedSince returns how many notifications the failing master has accepted since then.
func (h *handing) acceptedSince(since time.Time) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, to := range h.accepted {
		if to.node == h.at && to.at.After(since) {
			n++
		}
	}
	return n
}

// supervise starts a worker, and starts it again if it ends, as it may while most of the masters are
// away.
func (r *clusterRig) supervise(t *testing.T) *rig.Program {
	t.Helper()
	p := rig.Start(t, r.Setup, "serve")
	p.Until(t, "serving", func() bool {
		select {
		case <-p.Done:
			if strings.Contains(p.Stderr.String(), "panic") {
				t.Fatal(&p.Stderr)
			}
			p = rig.Start(t, r.Setup, "serve")
		default:
		}
		return strings.Contains(p.Stderr.String(), "serving")
	})
	return p
}

// Workers, masters and replicas are killed at any time: with acknowledged writes no accepted
// notification is lost, and no limit is exceeded.
func TestClusterSurvivesKills(t *testing.T) {
	t.Parallel()
	r := newReplicatedRig(t, throttle.Policy{MinGap: 100 * time.Millisecond, Rates: []throttle.Rate{{Count: 40, Period: 5 * time.Second}}})
	r.acknowledge(t)
	r.work(t, 3)
	h := newHanding(t, r)
	stop := h.begin(t)
	defer stop()
	lasts, seed := lasts(time.Minute, 10*time.Second), *seeded
	random := rand.New(rand.NewPCG(seed, 0))
	within := func(least, most time.Duration) time.Duration {
		return least + time.Duration(random.Int64N(int64(most-least)))
	}
	servers := append(append([]*redistest.Server{}, r.nodes...), r.replicas...)
	r.workers[0].Until(t, "they are sent", func() bool { return len(h.sent(true)) >= 50 })
	began, kills := time.Now(), [2]int{}
	h.left = began
	for time.Since(began) < lasts {
		if random.IntN(3) == 0 {
			at := random.IntN(len(r.workers))
			rig.Must(t, r.workers[at].Cmd.Process.Kill())
			<-r.workers[at].Done
			r.workers[at] = r.supervise(t)
			kills[0]++
		} else {
			server := servers[random.IntN(len(servers))]
			server.Kill(t)
			if random.IntN(2) == 0 { // else the master is back before a replica replaces it
				time.Sleep(within(2*time.Second, 8*time.Second))
			}
			server.Restart(t)
			kills[1]++
		}
		time.Sleep(within(0, 3*time.Second))
	}
	h.back = time.Now()
	for node := range r.nodes {
		h.at = node
		r.workers[0].Until(t, fmt.Sprintf("those on master %d are accepted again", node), func() bool { return h.accepts(h.back) })
	}
	stop()
	h.rest(t, len(h.accepted))
	t.Logf("seed %d: %d workers and %d servers killed in %s", seed, kills[0], kills[1], lasts)
	all, twice := h.sent(true), 0
	maps.Copy(all, h.sent(false))
	for _, at := range all {
		twice += len(at) - 1
	}
	t.Logf("%d sent twice", twice)
	h.judgeAdmitted(t, all, false)
}
