package shard

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
	"github.com/pushpace/pushpace/internal/redistest"
)

// The names are where the data of those who run a Cluster lie: another name loses it.
func TestNames(t *testing.T) {
	t.Parallel()
	one, cluster := Of(redis.NewClient(&redis.Options{}), "pushpace"), Of(redis.NewClusterClient(&redis.ClusterOptions{}), "acme")
	for _, c := range []struct{ got, want string }{
		{one.Key("id:7"), "pushpace:id:7"},
		{one.QueueKey("pushpace-bulk", "pending"), "asynq:{pushpace-bulk}:pending"},
		{one.QueueOf("asynq:{pushpace-bulk}:pending"), "pushpace-bulk"},
		{cluster.Key("id:7"), "acme:{shard-01o}:id:7"},
		{cluster.QueueKey("pushpace-critical", "t:7"), "asynq:{pushpace-critical-9s4}:t:7"},
		{cluster.QueueKey("pushpace-default", "t:7"), "asynq:{pushpace-default-963}:t:7"},
		{cluster.QueueKey("pushpace-bulk", "t:7"), "asynq:{pushpace-bulk-84p}:t:7"},
		{cluster.IdleKey("pushpace-bulk"), "asynq:{pushpace-bulk-84p}:idle"},
		{cluster.QueueOf("asynq:{pushpace-bulk-84p}:idle"), "pushpace-bulk"},
		{cluster.Queue("another"), "another"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}

// Redis has the same slots, and one for all of a shard.
func TestSlots(t *testing.T) {
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
	s := Of(redis.NewClusterClient(&redis.ClusterOptions{}), "pushpace")
	for _, queue := range slices.Sorted(maps.Keys(asynqwire.Queues())) {
		for _, key := range []string{s.QueueKey(queue, "pending"), s.IdleKey(queue), s.Key("counts")} {
			if slot(key) != home {
				t.Errorf("%s is in %d", key, slot(key))
			}
		}
	}
	seen := map[string]bool{}
	for k := range 16 {
		name := landing(fmt.Sprint("q-", k), slots/16*k)
		if slotOf(name) != slots/16*k || seen[name] {
			t.Errorf("%s is in %d", name, slotOf(name))
		}
		seen[name] = true
	}
}
