//go:build unix

package redisconn

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redistest"
)

// TestClusterFailover kills a master: its keys are found on the replica soon after the promotion,
// not only at go-redis's next own reload of the slot map.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	args := redistest.Args("--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no")
	nodes := redistest.StartCluster(t, 3, args)
	replica := redistest.Replica(t, nodes[0], nodes, args)
	conn := open(t, settings(config.Cluster, nodes[1].Addr()))
	ctx := t.Context()
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
	eventually.Holds(t, "the replica takes the place of the master", func() bool {
		info, err := c.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "role:master") && c.Set(ctx, moved, "x", 0).Err() == nil
	})
	const looks = time.Minute // go-redis's own interval between reloads
	if !eventually.Within(looks*2/3, func() bool { return conn.Client.Set(ctx, moved, "y", 0).Err() == nil }) {
		t.Error("the map of the slots is not read again")
	}
}

// A command without a deadline ends soon on a Cluster node that accepts and does not answer.
func TestHungClusterNodeFailsCommandSoon(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	cfg := settings(config.Cluster, nodes[0].Addr())
	cfg.DialTimeout, cfg.Timeout = time.Second, time.Second
	conn, err := Open(t.Context(), cfg, 4)
	must(t, err)
	defer conn.Close()
	n := redistest.Count(conn.Client, func(cmd redis.Cmder) bool { return cmd.Name() == "get" })
	for _, node := range nodes {
		node.Pause(t)
		defer node.Resume(t)
	}
	if err := conn.Client.Get(context.Background(), "x").Err(); err == nil || n.Load() == 0 || n.Load() > redirects+1 {
		t.Errorf("%d attempts: %v", n.Load(), err)
	}
}
