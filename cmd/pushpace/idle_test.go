//go:build unix

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/ledger/ledgertest"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// An idleSite is workers that have nothing to do.
type idleSite struct {
	site
	redis    redis.UniversalClient
	producer *push.Producer
	workers  []*program
	sent     []string // IDs
}

// idleWorkers runs two workers on the Redis of that address.
func idleWorkers(t *testing.T, address string) *idleSite {
	t.Helper()
	client := connect(t, address)
	s := &idleSite{redis: client, producer: push.NewProducer(client, "", 0)}
	s.dir = write(t, "config.yaml", fmt.Sprintf("redis: {address: %s}\napps: {demo: {simulated: true}}\n", address))
	s.simulate(t)
	for range 2 {
		s.workers = append(s.workers, s.serve(t))
	}
	return s
}

// connect connects to the Redis of that address as the program does.
func connect(t *testing.T, address string) redis.UniversalClient {
	t.Helper()
	cfg, err := config.Parse("config.yaml", fmt.Appendf(nil, "redis: {address: %s}\napps: {demo: {simulated: true}}\n", address), nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := redisconn.Open(t.Context(), cfg.Redis, 10)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.Client
}

// idle waits until so many workers hear words, and would be given some for each queue; of
// several shards those that lead each.
func (s *idleSite) idle(t *testing.T, workers int) {
	t.Helper()
	s.workers[len(s.workers)-1].until(t, "they wait for a word", func() bool {
		shards, err := ledger.NewRecords(s.redis, "", 0).All(t.Context())
		if err != nil || s.listening(t) != workers*len(shards) {
			return false
		}
		given := int64(workers)
		if len(shards) > 1 {
			given = 1
		}
		for _, at := range shards {
			for queue := range asynqwire.Queues() {
				if n, err := s.redis.SCard(t.Context(), at.IdleKey(queue)).Result(); err != nil || n < given {
					return false
				}
			}
		}
		return true
	})
}

// listening is how many workers hear words, on whichever node.
func (s *idleSite) listening(t *testing.T) int {
	var n atomic.Int64
	count := func(ctx context.Context, node *redis.Client) error {
		n.Add(int64(len(node.PubSubChannels(ctx, "asynq:idle:*").Val()) + len(node.PubSubShardChannels(ctx, "asynq:*:idle:*").Val())))
		return nil
	}
	switch client := s.redis.(type) {
	case *redis.Client:
		_ = count(t.Context(), client)
	case *redis.ClusterClient:
		_ = client.ForEachMaster(t.Context(), count)
	}
	return int(n.Load())
}

// of is a notification, which is to be sent.
func (s *idleSite) of(p push.Priority) *push.Notification {
	id := fmt.Sprint("n-", len(s.sent))
	s.sent = append(s.sent, id)
	return &push.Notification{
		ID: id, App: "demo", User: id, Priority: p, Title: "t", Targets: []push.Target{{Platform: push.FCM, Token: "a-phone"}},
	}
}

// enqueue tries until Redis takes it.
func (s *idleSite) enqueue(t *testing.T, n *push.Notification) {
	var err error
	if !eventually.Within(time.Minute, func() bool { _, err = s.producer.Enqueue(t.Context(), n); return err == nil }) {
		t.Errorf("%s is not accepted: %v", n.ID, err)
	}
}

// arrive waits until all were sent that are to be.
func (s *idleSite) arrive(t *testing.T) {
	t.Helper()
	s.workers[len(s.workers)-1].until(t, "all are sent", func() bool {
		sent := map[string]bool{}
		for _, e := range s.ledger(t) {
			sent[e.Notification] = true
		}
		return len(sent) == len(s.sent)
	})
}

// eachOnce ends the workers that run, and expects that each was sent once.
func (s *idleSite) eachOnce(t *testing.T) {
	t.Helper()
	s.stop(t, s.workers...)
	var got []string
	for _, e := range s.ledger(t) {
		got = append(got, e.Notification)
	}
	want := slices.Sorted(slices.Values(s.sent))
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("sent are %v, of %v", got, want)
	}
	audit := start(t, s.setup, "audit", "--json")
	if status := audit.wait(t, 10*time.Second); status != exitDone {
		t.Errorf("audit: exit status %d: %s%s", status, &audit.stdout, &audit.stderr)
	}
}

var allPriorities = []push.Priority{push.Bulk, push.Critical, push.Default}

// Whatever becomes of Redis while the workers wait for a word: what comes meanwhile,
// and after it, is sent once, and all hear words again.
func TestIdleWorkersInTrouble(t *testing.T) {
	aboutProcesses(t, "runs several of Redis's and several of the program")
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
			return addressOf(nodes), func() { redistest.FailOver(t, master, replica) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, trouble := open(t)
			s := idleWorkers(t, address)
			s.idle(t, 2)
			for _, p := range allPriorities {
				s.enqueue(t, s.of(p))
			}
			s.arrive(t)
			s.idle(t, 2)
			var meanwhile sync.WaitGroup
			began := time.Now()
			for _, p := range allPriorities {
				n := s.of(p)
				meanwhile.Go(func() {
					time.Sleep(300 * time.Millisecond)
					s.enqueue(t, n)
				})
			}
			trouble()
			meanwhile.Wait()
			t.Logf("accepted again after %s", time.Since(began))
			s.arrive(t)
			t.Logf("sent after %s", time.Since(began))
			s.idle(t, 2)
			t.Logf("idle after %s", time.Since(began))
			for _, p := range allPriorities {
				s.enqueue(t, s.of(p))
			}
			s.arrive(t)
			s.eachOnce(t)
			for _, p := range s.workers {
				if n := p.said("no longer has what was accepted"); n > 0 {
					t.Errorf("a worker says %d times that something is lost", n)
				}
			}
		})
	}
}

// A worker that is killed while it waits is given a word in vain: another finds the job.
func TestAnIdleWorkerIsKilled(t *testing.T) {
	aboutProcesses(t, "kills a worker")
	t.Parallel()
	server := redistest.Start(t)
	s := idleWorkers(t, server.Addr())
	s.idle(t, 2)
	if err := s.workers[0].cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.workers[0].done
	s.workers = s.workers[1:]
	for range 3 { // the dead one is picked by one of them, of each queue
		s.idle(t, 1)
		for _, p := range allPriorities {
			s.enqueue(t, s.of(p))
		}
		s.arrive(t)
	}
	s.eachOnce(t)
}

// What another client of asynq's puts on a queue is found, now or when it is due.
func TestIdleWorkersFindAnothersJobs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := idleWorkers(t, server.Addr())
	tasks := asynq.NewClientFromRedisClient(s.redis)
	for _, in := range []time.Duration{0, 2 * time.Second} {
		s.idle(t, 2)
		for _, p := range allPriorities {
			n := s.of(p)
			payload, err := push.Encode(&push.Job{Notification: n, AcceptedAt: time.Now()})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tasks.Enqueue(asynq.NewTask(asynqwire.TaskType, payload), asynq.TaskID(n.ID), asynq.Queue(ledgertest.First(t, ledger.NewRecords(s.redis, "", 0)).Queue(p.Queue())), asynq.ProcessIn(in), asynq.MaxRetry(asynqwire.MaxRetry)); err != nil {
				t.Fatal(err)
			}
		}
		s.arrive(t)
	}
	s.eachOnce(t)
}

// Workers that wait for a word end at once, though Redis hangs, and are given none
// any more.
func TestIdleWorkersEnd(t *testing.T) {
	t.Parallel()
	const soon = 15 * time.Second // on a busy machine: time-outs one after another are 9 s
	server := redistest.Start(t)
	s := idleWorkers(t, server.Addr())
	s.idle(t, 2)
	began := time.Now()
	s.workers[0].terminate(t)
	if status := s.workers[0].wait(t, soon); status != exitDone {
		t.Errorf("exit status %d: %s", status, &s.workers[0].stderr)
	}
	t.Logf("ended after %s", time.Since(began))
	s.idle(t, 1)
	for queue := range asynqwire.Queues() {
		if n := s.redis.SCard(t.Context(), ledgertest.First(t, ledger.NewRecords(s.redis, "", 0)).IdleKey(queue)).Val(); n != 1 {
			t.Errorf("%d would be given words for %s, one waits", n, queue)
		}
	}
	server.Pause(t)
	defer server.Resume(t)
	began = time.Now()
	s.workers[1].terminate(t)
	if status := s.workers[1].wait(t, soon); status != exitDone {
		t.Errorf("while Redis hangs: exit status %d: %s", status, &s.workers[1].stderr)
	}
	t.Logf("ended after %s while Redis hangs", time.Since(began))
}
