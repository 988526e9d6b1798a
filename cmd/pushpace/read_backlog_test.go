//go:build unix

package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

func inMemory(t *testing.T) *throttle.Memory {
	t.Helper()
	l, err := throttle.NewMemory(throttle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// While a master of a Cluster is away, it is told which, and what waited there.
func TestBacklogOfACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3, redistest.Args("--cluster-require-full-coverage", "no"))
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{nodes[0].Addr(), nodes[1].Addr(), nodes[2].Addr()}, ContextTimeoutEnabled: true, DialerRetries: 1, MaxRedirects: 1,
	})
	t.Cleanup(func() { _ = client.Close() })
	cfg := &config.Config{Redis: config.Redis{Prefix: "pushpace"}}
	s := &system{
		queue: client, config: cfg, records: store.NewRecords(client, "", 0), redisLog: slog.New(slog.DiscardHandler),
		limits: limitsOf(cfg.Limits), limiter: throttle.WithOutage(inMemory(t), throttle.Closed, throttle.OutageOptions{}),
	}
	const users = 30
	producer := push.NewProducer(client, "", 0)
	for i := range users {
		n := &push.Notification{ID: fmt.Sprint("n-", i), App: "shop", User: fmt.Sprint("u-", i), Title: "t", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}}
		if _, err := producer.Enqueue(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	for _, away := range []string{"", nodes[1].Addr()} {
		if away != "" {
			nodes[1].Kill(t)
		}
		b, err := s.readBacklog(t.Context())
		if err != nil || len(b.Nodes) != len(nodes) {
			t.Fatalf("%+v, %v", b.Nodes, err)
		}
		var waiting int64
		shards := 0
		for _, n := range b.Nodes {
			if n.Waiting == nil || (n.Error != "") != (n.Address == away) {
				t.Fatalf("%q away: %+v", away, n)
			}
			waiting, shards = waiting+*n.Waiting, shards+len(n.Shards)
		}
		if waiting != users || shards != 8 {
			t.Errorf("%q away: %d wait in %d shards", away, waiting, shards)
		}
	}
}

// Whether Redis serves is for the sums and the queues to say. What else cannot be
// read, for want of a right or for a key of another type, is left out, and told
// once.
func TestWhatCannotBeReadIsLeftOut(t *testing.T) {
	t.Parallel()
	options := redistest.Shared(t).Options()
	options.DB = redistest.Database(t)
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	var text bytes.Buffer
	cfg := &config.Config{Redis: config.Redis{Prefix: "pushpace"}, Apps: map[string]config.App{
		"shop": {DeadTokens: config.Reports{Webhook: &config.Webhook{}}, Outcomes: config.Reports{Webhook: &config.Webhook{}}},
	}}
	s := &system{
		queue: client, config: cfg, records: store.NewRecords(client, "", 0), redisLog: slog.New(slog.NewTextHandler(&text, nil)),
		limits: limitsOf(cfg.Limits), limiter: throttle.WithOutage(inMemory(t), throttle.Closed, throttle.OutageOptions{}),
	}
	keys := []string{storetest.First(t, s.records).Key("dead-tokens:shop"), "pushpace:{workers}:alive", "pushpace:{pauses}:operators"}
	for _, key := range keys {
		if err := client.Set(t.Context(), key, "of another type", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		b, err := s.readBacklog(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, known := b.Webhooks["shop"]["outcomes"]; len(b.Webhooks["shop"]) != 1 || !known || b.Workers != -1 || b.Waits != nil || b.Jobs == nil {
			t.Errorf("%+v", b)
		}
	}
	if n := strings.Count(text.String(), "level=WARN"); n != 3 {
		t.Errorf("told %d times:\n%s", n, &text)
	}
	if err := client.Del(t.Context(), keys...).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		b, err := s.readBacklog(t.Context())
		if err != nil || len(b.Webhooks["shop"]) != 2 || b.Workers != 0 || time.Since(s.waits.at) > time.Minute {
			t.Errorf("%+v, %v", b, err)
		}
	}
	if n := strings.Count(text.String(), "level=INFO"); n != 3 {
		t.Errorf("told %d times that it is over:\n%s", n, &text)
	}
}
