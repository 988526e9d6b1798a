package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/store"
)

// A stage is a database for a bench with queues; no other program uses it.
type stage struct {
	Redis  string
	DB     int
	Prefix string
	Hosts  []string // of a Cluster; nil for the single Redis
	// Acknowledged is the number of replicas that confirm each write.
	Acknowledged int
	Shards       int // 0 for the default
}

// databases is a Redis's default number of databases.
const databases = 16

// openStage picks the first empty database from 15 down to 1. If none is empty, it takes database
// 0, and returns an error if pushpace's queues there are in use.
func (r *run) openStage(ctx context.Context) (stage, error) {
	for db := databases - 1; db > 0; db-- {
		s := stage{Redis: r.addr, DB: db, Prefix: r.prefix}
		client := s.client(1)
		size, err := client.DBSize(ctx).Result()
		_ = client.Close()
		if err == nil && size == 0 {
			return s, nil
		}
	}
	s := stage{Redis: r.addr, Prefix: r.prefix}
	return s, s.vacant(ctx)
}

// vacant returns an error if pushpace's queues are in use.
func (s stage) vacant(ctx context.Context) error {
	client := s.client(1)
	defer client.Close()
	inspector := asynq.NewInspectorFromRedisClient(client)
	servers, err := inspector.Servers()
	if err != nil {
		return fmt.Errorf("redis %s: list the workers: %w", s.Redis, err)
	}
	jobs, err := store.ReadJobs(ctx, client, store.NewRecords(client, s.Prefix, 0))
	if err != nil {
		return fmt.Errorf("redis %s: %w", s.Redis, err)
	}
	sum := store.SumJobs(jobs)
	for _, queue := range shard.Queues {
		for _, server := range servers {
			if server.Queues[queue] > 0 {
				return fmt.Errorf("redis %s: a worker uses the queue %s: stop the worker, or use another Redis", s.Redis, queue)
			}
		}
		for _, n := range sum[queue] {
			if n > 0 {
				return fmt.Errorf("redis %s: the queue %s is not empty: use another Redis", s.Redis, queue)
			}
		}
	}
	return nil
}

// client returns a client with one connection per goroutine.
func (s stage) client(goroutines int) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: s.Redis, DB: s.DB, PoolSize: goroutines, ContextTimeoutEnabled: true,
		ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
	})
}

// clear removes a round's queues and its keys below the prefix.
func (s stage) clear() {
	ctx := context.Background()
	client := s.client(1)
	defer client.Close()
	remove(ctx, client, s.Prefix+"*")
	for _, queue := range shard.NewShards(client, s.Prefix, 1)[0].Queues() {
		s.clearQueue(ctx, client, queue)
	}
	s.clearQueue(ctx, client, s.Prefix)
}

func (s stage) clearQueue(ctx context.Context, client *redis.Client, queue string) {
	remove(ctx, client, shard.QueueKey(queue, "*"))
	client.SRem(ctx, shard.QueuesKey, queue)
}
