//go:build unix

package redistest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redisserver"
)

// Moving configures how Reshard moves the keys of a hash slot.
type Moving struct {
	Keys  int           // number of keys in a batch
	Pause time.Duration // before the first batch and after each batch
}

// Reshard moves hash slots of a Cluster from one master to another, one after the other, as
// redis-cli --cluster reshard does: while a hash slot is open, its keys are on both masters.
// masters are all masters of the Cluster.
func Reshard(t testing.TB, from, to *Server, masters []*Server, how Moving, slots ...int) {
	t.Helper()
	ctx := t.Context()
	source, target := from.Client(t), to.Client(t)
	do := func(c *redis.Client, args ...any) any {
		reply, err := c.Do(ctx, args...).Result()
		if err != nil {
			t.Fatalf("redistest: %v: %v", args, err)
		}
		return reply
	}
	sourceID, targetID := do(source, "CLUSTER", "MYID"), do(target, "CLUSTER", "MYID")
	clients := []*redis.Client{target, source} // in this order, so that the hash slot always has an owner
	for _, master := range masters {
		if master != from && master != to {
			clients = append(clients, master.Client(t))
		}
	}
	pause := time.NewTimer(how.Pause)
	defer pause.Stop()
	for _, slot := range slots {
		do(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", sourceID)
		do(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", targetID)
		for {
			pause.Reset(how.Pause)
			<-pause.C
			keys, err := source.ClusterGetKeysInSlot(ctx, slot, how.Keys).Result()
			if err != nil {
				t.Fatalf("redistest: keys of slot %d: %v", slot, err)
			}
			if len(keys) == 0 {
				break
			}
			if err := migrate(ctx, source, to, keys); err != nil {
				t.Fatalf("redistest: slot %d: %v", slot, err)
			}
		}
		for _, c := range clients {
			do(c, "CLUSTER", "SETSLOT", slot, "NODE", targetID)
		}
	}
}

// migrate moves keys, with several attempts if necessary.
func migrate(ctx context.Context, source *redis.Client, to *Server, keys []string) error {
	address := to.Options().Addr
	host, port, _ := strings.Cut(address, ":")
	args := []any{"MIGRATE", host, port, "", 0, startLimit.Milliseconds(), "KEYS"}
	for _, key := range keys {
		args = append(args, key)
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return redisserver.Poll(ctx, func() error { return source.Do(ctx, args...).Err() })
}
