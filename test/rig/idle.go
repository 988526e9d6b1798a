package rig

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// An IdleSite runs idle workers.
type IdleSite struct {
	Site
	Redis    redis.UniversalClient
	producer *push.Producer
	Workers  []*Program
	sent     []string // IDs
}

// IdleWorkers runs two workers on the Redis of that address.
func IdleWorkers(t *testing.T, address string) *IdleSite {
	t.Helper()
	client := Connect(t, address)
	s := &IdleSite{Redis: client, producer: push.NewProducer(client, "", 0)}
	s.Dir = Write(t, "config.yaml", fmt.Sprintf("redis: {address: %s}\napps: {demo: {simulated: true}}\n", address))
	s.Simulate(t)
	for range 2 {
		s.Workers = append(s.Workers, s.Serve(t))
	}
	return s
}

// Connect connects to the Redis of that address as the program does.
func Connect(t *testing.T, address string) redis.UniversalClient {
	t.Helper()
	cfg, err := config.Parse("config.yaml", fmt.Appendf(nil, "redis: {address: %s}\napps: {demo: {simulated: true}}\n", address), nil)
	Must(t, err)
	conn, err := redisconn.Open(t.Context(), cfg.Redis, 10)
	Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn.Client
}

// Idle waits until that many workers wait for wake-ups, and each queue was found empty.
func (s *IdleSite) Idle(t *testing.T, workers int) {
	t.Helper()
	s.Workers[len(s.Workers)-1].Until(t, "the workers wait for wake-ups", func() bool {
		shards, err := store.NewRecords(s.Redis, "", 0).All(t.Context())
		if err != nil {
			return false
		}
		for _, at := range shards {
			if s.listening(t, at.Channel(), at.Sharded()) != int64(workers) {
				return false
			}
			for _, queue := range shard.Queues {
				if s.Redis.Exists(t.Context(), at.IdleKey(queue)).Val() == 0 {
					return false
				}
			}
		}
		return true
	})
}

// listening returns the number of the channel's subscribers, over all nodes.
func (s *IdleSite) listening(t *testing.T, channel string, sharded bool) int64 {
	var n atomic.Int64
	count := func(ctx context.Context, node *redis.Client) error {
		count := node.PubSubNumSub
		if sharded {
			count = node.PubSubShardNumSub
		}
		n.Add(count(ctx, channel).Val()[channel])
		return nil
	}
	switch client := s.Redis.(type) {
	case *redis.Client:
		_ = count(t.Context(), client)
	case *redis.ClusterClient:
		_ = client.ForEachMaster(t.Context(), count)
	}
	return n.Load()
}

// Of returns a new notification of the priority; Arrive expects its push.
func (s *IdleSite) Of(p push.Priority) *push.Notification {
	id := fmt.Sprint("n-", len(s.sent))
	s.sent = append(s.sent, id)
	return &push.Notification{
		ID: id, App: "demo", User: id, Priority: p, Title: "t", Targets: []push.Target{{Platform: push.FCM, Token: "a-phone"}},
	}
}

// Enqueue enqueues the notification. It tries for a minute until Redis accepts it.
func (s *IdleSite) Enqueue(t *testing.T, n *push.Notification) {
	succeeds(t, "enqueue "+n.ID, func() error { _, err := s.producer.Enqueue(t.Context(), n); return err })
}

// Arrive waits until all notifications from Of are sent.
func (s *IdleSite) Arrive(t *testing.T) {
	t.Helper()
	s.Workers[len(s.Workers)-1].Until(t, "all are sent", func() bool {
		sent := map[string]bool{}
		for _, e := range s.Ledger(t) {
			sent[e.Notification] = true
		}
		return len(sent) == len(s.sent)
	})
}

// EachOnce ends the workers, and fails unless each notification was sent once.
func (s *IdleSite) EachOnce(t *testing.T) {
	t.Helper()
	s.Stop(t, s.Workers...)
	var got []string
	for _, e := range s.Ledger(t) {
		got = append(got, e.Notification)
	}
	want := slices.Sorted(slices.Values(s.sent))
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("sent are %v, of %v", got, want)
	}
	s.Audited(t)
}

var AllPriorities = []push.Priority{push.Bulk, push.Critical, push.Default}

// AddressOf returns redis.address for a Cluster of the nodes.
func AddressOf(nodes []*redistest.Server) string {
	var all []string
	for _, node := range nodes {
		all = append(all, strconv.Quote(node.Addr()))
	}
	return "[" + strings.Join(all, ", ") + "]"
}
