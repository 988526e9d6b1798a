//go:build e2e && unix

package e2e

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/test/rig"
)

// Redis fails in different ways while the workers are idle. Notifications enqueued during and after
// the failure are sent once, and all workers receive wake-ups again.
func TestIdleWorkersSurviveRedisFailures(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (address string, trouble func()){
		"restart": func(t *testing.T) (string, func()) {
			server := redistest.Start(t, redistest.AppendOnly())
			return server.Addr(), func() { server.Kill(t); time.Sleep(time.Second); server.Restart(t) }
		},
		"hang": func(t *testing.T) (string, func()) {
			server := redistest.Start(t)
			return server.Addr(), func() { server.Pause(t); time.Sleep(6 * time.Second); server.Resume(t) }
		},
		"sentinel": func(t *testing.T) (string, func()) {
			master := redistest.Start(t)
			sentinel := redistest.StartSentinel(t, master)
			replica := redistest.SentinelReplica(t, master, sentinel)
			address := fmt.Sprintf("{master: %s, sentinels: [%q]}", redistest.MasterName, sentinel.Addr())
			return address, func() { redistest.FailOver(t, master, replica) }
		},
		"cluster": func(t *testing.T) (string, func()) {
			args := redistest.Args("--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no")
			nodes := redistest.StartCluster(t, 3, args)
			master := nodes[1]
			replica := redistest.Replica(t, master, nodes, args)
			return rig.AddressOf(nodes), func() { redistest.FailOver(t, master, replica) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, trouble := open(t)
			s := rig.IdleWorkers(t, address)
			s.Idle(t, 2)
			for _, p := range rig.AllPriorities {
				s.Enqueue(t, s.Of(p))
			}
			s.Arrive(t)
			s.Idle(t, 2)
			var meanwhile sync.WaitGroup
			for _, p := range rig.AllPriorities {
				n := s.Of(p)
				meanwhile.Go(func() {
					time.Sleep(300 * time.Millisecond)
					s.Enqueue(t, n)
				})
			}
			trouble()
			meanwhile.Wait()
			s.Arrive(t)
			s.Idle(t, 2)
			for _, p := range rig.AllPriorities {
				s.Enqueue(t, s.Of(p))
			}
			s.Arrive(t)
			s.EachOnce(t)
			for _, p := range s.Workers {
				if n := p.Said("Redis has lost accepted notifications"); n > 0 {
					t.Errorf("a worker says %d times that something is lost", n)
				}
			}
		})
	}
}
