package shard

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
)

// The names must not change: running Clusters have their data under these names.
func TestShardNamesDoNotChange(t *testing.T) {
	t.Parallel()
	of := func(shards, number int) Shard {
		return NewShards(redis.NewClusterClient(&redis.ClusterOptions{}), "acme", shards)[number]
	}
	one, cluster := NewShards(redis.NewClient(&redis.Options{DB: 2}), "pushpace", 1)[0], NewShards(redis.NewClusterClient(&redis.ClusterOptions{}), "acme", 1)[0]
	for _, c := range []struct{ got, want string }{
		{one.Key("id:7"), "pushpace:{shard-01o}:id:7"},
		{one.QueueKey("pushpace-bulk", "pending"), "asynq:{pushpace-bulk-84p}:pending"},
		{one.QueueOf("asynq:{pushpace-bulk-84p}:pending"), "pushpace-bulk"},
		{cluster.Key("id:7"), "acme:{shard-01o}:id:7"},
		{cluster.QueueKey("pushpace-critical", "t:7"), "asynq:{pushpace-critical-9s4}:t:7"},
		{cluster.QueueKey("pushpace-default", "t:7"), "asynq:{pushpace-default-963}:t:7"},
		{cluster.QueueKey("pushpace-bulk", "t:7"), "asynq:{pushpace-bulk-84p}:t:7"},
		{cluster.IdleKey("pushpace-bulk"), "asynq:{pushpace-bulk-84p}:idle"},
		{cluster.QueueOf("asynq:{pushpace-bulk-84p}:idle"), "pushpace-bulk"},
		{cluster.Queue("another"), "another"},
		{cluster.Channel(), "asynq:{pushpace-default-963}:idle"},
		{one.Channel(), "asynq:2:pushpace-default-963:idle"},
		{NewShards(redis.NewClient(&redis.Options{}), "pushpace", 8)[3].Channel(), "asynq:0:pushpace-default-03-9j8:idle"},
		{of(8, 3).Key("counts"), "acme:{shard-03-2nv}:counts"},
		{of(8, 7).QueueKey("pushpace-default", "pending"), "asynq:{pushpace-default-07-7u2}:pending"},
		{of(16, 7).Key("counts"), "acme:{shard-07-bbs}:counts"},
		{of(16, 7).Queue("pushpace-critical"), "pushpace-critical-07-g1u"},
		{of(16, 7).Queue("pushpace-default"), "pushpace-default-07-4eu"},
		{of(16, 7).Queue("pushpace-bulk"), "pushpace-bulk-07-0iv"},
		{of(64, 63).Queue("pushpace-bulk"), "pushpace-bulk-63-6jc"},
		{of(256, 255).Key("counts"), "acme:{shard-255-64j}:counts"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}

// Redis computes the same hash slots, and one hash slot for all keys of a shard.
func TestKeysOfShardHaveOneHashSlot(t *testing.T) {
	t.Parallel()
	client := redistest.StartCluster(t, 3)[0].Client(t)
	slot := func(key string) int64 {
		n, err := client.ClusterKeySlot(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, tag := range []string{"a", "123456789", "shop/ü€", "\x00\xff"} {
		if slot(tag) != int64(slotOf(tag)) {
			t.Errorf("%q is in %d, and not in %d", tag, slot(tag), slotOf(tag))
		}
	}
	for _, n := range []int{1, 8} {
		for k, s := range NewShards(redis.NewClusterClient(&redis.ClusterOptions{}), "pushpace", n) {
			for _, queue := range Queues {
				for _, key := range []string{s.QueueKey(queue, "pending"), s.IdleKey(queue), s.Key("counts"), s.Channel()} {
					if got, want := slot(key), int64(k*slots/n+slots/n/2); got != want {
						t.Errorf("%s is in %d, want %d", key, got, want)
					}
				}
			}
		}
	}
	for i := range 200 { // a user's timeline is in the block of the user's shard
		app, user := fmt.Sprintf("shop {%d}", i%3), fmt.Sprintf("u-%d\xff}/", i)
		if got, want := slot("p:{"+UserTag(app, user)+"}:sent")*8/slots, int64(Of(8, app, user)); got != want {
			t.Errorf("%q is in shard %d, and the timeline in the block of %d", user, want, got)
		}
	}
	seen := map[string]bool{}
	for k := range 16 {
		name := nameInSlot(fmt.Sprint("q-", k), slots/16*k)
		if slotOf(name) != slots/16*k || seen[name] {
			t.Errorf("%s is in %d", name, slotOf(name))
		}
		seen[name] = true
	}
}
