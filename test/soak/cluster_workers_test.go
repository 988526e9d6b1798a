//go:build soak && unix

package soak

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
)

// One of three workers is killed while all are idle: the others send what comes. Of a backlog in
// one shard each of three takes a part.
func TestAClustersWorkersStandIn(t *testing.T) {
	t.Parallel()
	r := newClusterRig(t, throttle.Policy{MinGap: time.Second})
	r.Env = append(r.Env, "PUSHPACE_TELEMETRY__LISTEN=:0")
	r.work(t, 3)
	idle := &rig.IdleSite{Redis: rig.Connect(t, rig.AddressOf(r.nodes)), Workers: r.workers}
	idle.Idle(t, 3)
	all, err := r.records.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	of := func(number int) *push.Notification { // is to a user in that shard who has got none
		for {
			made++
			if id := fmt.Sprint("n-", made); shard.Of(len(all), "shop", id) == number {
				return &push.Notification{ID: id, App: "shop", User: id, Title: "hello", Targets: []push.Target{{Platform: push.FCM, Token: id}}}
			}
		}
	}
	accepted := 0
	// round sends one in each shard and answers how long it takes, from the shortest on
	round := func() (took []time.Duration) {
		t.Helper()
		at := map[string]time.Time{}
		for number := range all {
			n := of(number)
			at[n.ID] = time.Now()
			r.enqueueAll(t, []*push.Notification{n})
		}
		accepted += len(at)
		r.workers[0].Until(t, "one of each shard is sent", func() bool { return r.Delivered() == accepted })
		for _, e := range r.FCM.Ledger().Entries() {
			if began, ours := at[e.Notification]; ours {
				took = append(took, e.At.Sub(began).Round(100*time.Microsecond))
			}
		}
		slices.Sort(took)
		return took
	}
	round() // the scripts are loaded
	idle.Idle(t, 3)
	t.Logf("one in each shard is sent in %v", round())
	idle.Idle(t, 3)
	killed := r.workers[2]
	r.workers = r.workers[:2]
	if err := killed.Cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-killed.Done
	t.Logf("a worker was killed: one in each shard is sent in %v", round())
	idle.Workers = r.workers
	idle.Idle(t, 2)
	t.Logf("then in %v", round())

	r.work(t, 1)
	idle.Workers = r.workers
	idle.Idle(t, 3)
	before := make([]int, len(r.workers))
	for i, w := range r.workers {
		before[i] = checks(t, w)
	}
	parts := make([]int, len(r.workers))
	began, backlog := time.Now(), 0
	r.workers[0].Until(t, "each worker takes of a backlog in one shard", func() bool {
		for backlog-(r.Delivered()-accepted) < size(10_000, 2000) {
			var batch []*push.Notification
			for range 500 {
				batch = append(batch, of(3))
			}
			r.enqueueAll(t, batch)
			backlog += len(batch)
		}
		for i, w := range r.workers {
			parts[i] = checks(t, w) - before[i]
		}
		return !slices.Contains(parts, 0)
	})
	t.Logf("after %s each worker takes of a backlog in one shard: they have checked %v", time.Since(began).Round(time.Millisecond), parts)
	r.rest(t, accepted+backlog)
}
