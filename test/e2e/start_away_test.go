//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/test/rig"
)

// While any master of a Cluster is away, workers and producers start all the same. What lies
// elsewhere is accepted at once, and sent unless nobody can tell what operators have paused;
// the rest when the master is back.
func TestStartWithoutAMaster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3, redistest.AppendOnly(), redistest.Args("--cluster-require-full-coverage", "no"))
	s := &rig.Site{}
	s.Dir = rig.Write(t, "config.yaml", string(pushpace.ConfigYAML))
	s.Env = []string{"PUSHPACE_REDIS__ADDRESS=" + nodes[0].Addr() + "," + nodes[1].Addr() + "," + nodes[2].Addr()}
	s.Simulate(t)
	s.Stop(t, s.Serve(t)) // it divides the Cluster
	const users = 30
	waited := 0
	for away, node := range nodes {
		ids := map[string]bool{} // not accepted yet
		for i := range users {
			ids[fmt.Sprintf("away-%d-%d", away, i)] = true
		}
		send := func() {
			var input strings.Builder
			for id := range ids {
				input.WriteString(rig.Notification(id, id, "security", "fcm", "phone-of-"+id))
			}
			with := s.Setup
			with.Stdin = strings.NewReader(input.String())
			p := rig.Start(t, with, "send", "--file", "-")
			p.Wait(t)
			for id := range ids {
				if strings.Contains(p.Stdout.String(), `"id":"`+id+`","known"`) {
					delete(ids, id)
				}
			}
		}
		arrived := func() int {
			at := map[string]bool{}
			for _, e := range s.Ledger(t) {
				if strings.HasPrefix(e.Notification, fmt.Sprintf("away-%d-", away)) {
					at[e.Notification] = true
				}
			}
			return len(at)
		}
		node.Kill(t)
		workers := s.Serve(t)
		send()
		accepted := users - len(ids)
		if accepted == 0 || accepted == users {
			t.Errorf("master %d is away, and %d are accepted", away, accepted)
		}
		says := func() bool {
			return strings.Contains(workers.Stderr.String(), "nothing is taken from the queue before")
		}
		workers.Until(t, "what lies elsewhere is sent, or waits", func() bool { return says() || arrived() == accepted })
		waits, back := says(), time.Now()
		node.Restart(t)
		workers.Until(t, "all is accepted", func() bool { send(); return len(ids) == 0 })
		workers.Until(t, "all is sent", func() bool { return arrived() == users })
		if waits {
			waited++
			for _, e := range s.Ledger(t) {
				if strings.HasPrefix(e.Notification, fmt.Sprintf("away-%d-", away)) && e.At.Before(back) {
					t.Errorf("%s is sent, and may be paused", e.Notification)
				}
			}
		}
		s.Stop(t, workers)
	}
	if waited != 2 { // of the masters that have the pauses and the limits
		t.Errorf("for %d of 3 masters the workers wait", waited)
	}
	sent := map[string]int{}
	for _, e := range s.Ledger(t) {
		sent[e.Notification]++
	}
	for id, n := range sent {
		if n != 1 {
			t.Errorf("%s is sent %d times", id, n)
		}
	}
}

// A command that has never seen a master is told by the workers what waited there.
func TestOverviewWithoutAMaster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3, redistest.AppendOnly(), redistest.Args("--cluster-require-full-coverage", "no"))
	s := &rig.Site{}
	s.Dir = rig.Write(t, "config.yaml", string(pushpace.ConfigYAML))
	s.Env = []string{"PUSHPACE_REDIS__ADDRESS=" + nodes[0].Addr() + "," + nodes[1].Addr() + "," + nodes[2].Addr()}
	const users = 30
	var input strings.Builder
	for i := range users {
		input.WriteString(strings.Replace(rig.Notification(fmt.Sprint("n-", i), fmt.Sprint("u-", i), "", "fcm", "t"), "{", `{"not_before":"2100-01-01T00:00:00Z","expires_at":"2100-01-02T00:00:00Z",`, 1))
	}
	s.Send(t, rig.Done, input.String())
	worker := s.Serve(t)
	seen := func() (all operate.Overview) {
		got := rig.Run(t, s.Setup, "overview", "--json")
		if err := json.Unmarshal([]byte(got.Stdout), &all); err != nil {
			t.Fatalf("%+v: %v", got, err)
		}
		return all
	}
	away := slices.DeleteFunc(slices.Clone(nodes), func(n *redistest.Server) bool {
		return n == redistest.NodeOf(t, nodes, "pushpace:{workers}:alive")
	})[0]
	of := func(o operate.Overview) redisconn.Node {
		i := slices.IndexFunc(o.Redis, func(n redisconn.Node) bool { return n.Address == away.Addr() })
		if i < 0 {
			t.Fatalf("%+v", o.Redis)
		}
		return o.Redis[i]
	}
	before := of(seen())
	if before.Waiting == nil || *before.Waiting == 0 || !before.WaitingAt.IsZero() {
		t.Fatalf("%+v", before)
	}
	away.Kill(t)
	worker.Until(t, "what waited there", func() bool {
		n := of(seen())
		return n.Error != "" && slices.Equal(n.Shards, before.Shards) && n.Waiting != nil && *n.Waiting == *before.Waiting && !n.WaitingAt.IsZero()
	})
	away.Restart(t)
	s.Stop(t, worker)
}
