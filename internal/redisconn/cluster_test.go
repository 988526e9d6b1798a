//go:build unix

package redisconn

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redistest"
)

// TestClusterFailover has a master die: what was on it is found on the replica
// soon after it has taken its place, not when go-redis looks of its own.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	args := redistest.Args("--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no")
	nodes := redistest.StartCluster(t, 3, args)
	replica := redistest.Replica(t, nodes[0], nodes, args)
	conn := open(t, settings(config.Cluster, nodes[1].Addr()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var moved string
	for i := range 20 {
		key := fmt.Sprint(i)
		must(t, conn.Client.Set(ctx, key, i, 0).Err())
		if nodes[0].Client(t).Exists(ctx, key).Err() == nil {
			moved = key
		}
	}
	nodes[0].Kill(t)
	c := replica.Client(t)
	for {
		info, err := c.Info(ctx, "replication").Result()
		if err == nil && strings.Contains(info, "role:master") && c.Set(ctx, moved, "x", 0).Err() == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("nobody takes the place of the master: %v", err)
		}
	}
	promoted := time.Now()
	for conn.Client.Set(ctx, moved, "y", 0).Err() != nil {
		if time.Since(promoted) > 20*time.Second { // a busy machine; go-redis looks once a minute
			t.Fatal("the map of the slots is not read again")
		}
	}
	t.Logf("found %s after the promotion", time.Since(promoted))
}

// attempts counts the commands of that name that are sent to a node.
type attempts struct {
	name string
	n    *atomic.Int64
}

func (a attempts) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a attempts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a attempts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == a.name {
			a.n.Add(1)
		}
		return next(ctx, cmd)
	}
}

// TestAttemptsOnACluster has a command without a deadline end soon at a node that
// accepts and does not answer.
func TestAttemptsOnACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	cfg := settings(config.Cluster, nodes[0].Addr())
	cfg.DialTimeout, cfg.Timeout = time.Second, time.Second
	conn, err := Open(t.Context(), cfg, 4)
	must(t, err)
	defer conn.Close()
	var n atomic.Int64
	err = conn.Client.(*redis.ClusterClient).ForEachMaster(t.Context(), func(_ context.Context, node *redis.Client) error {
		node.AddHook(attempts{"get", &n})
		return nil
	})
	must(t, err)
	for _, node := range nodes {
		node.Pause(t)
		defer node.Resume(t)
	}
	if err := conn.Client.Get(context.Background(), "x").Err(); err == nil || n.Load() == 0 || n.Load() > redirects+1 {
		t.Errorf("%d attempts: %v", n.Load(), err)
	}
}
