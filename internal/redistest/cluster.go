//go:build unix

package redistest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// slots is the number of hash slots of a Cluster.
const slots = 16384

// StartCluster runs a Cluster of n masters until the test ends, and returns
// once every node serves its share of the slots.
func StartCluster(t testing.TB, n int, opts ...Option) []*Server {
	t.Helper()
	require(t)
	nodes := make([]*Server, n)
	for i := range nodes {
		s := &Server{dir: t.TempDir(), bus: true}
		nodes[i] = start(t, s, append([]Option{Args("--cluster-enabled", "yes")}, opts...)...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	for i, node := range nodes {
		c := node.Client(t)
		if err := join(ctx, c, nodes[0], i, n); err != nil {
			t.Fatalf("redistest: node %s: %v", node.Addr(), err)
		}
	}
	for _, node := range nodes {
		c := node.Client(t)
		if err := poll(ctx, func() error { return whole(ctx, c, n) }); err != nil {
			t.Fatalf("redistest: node %s: %v", node.Addr(), err)
		}
	}
	return nodes
}

// join gives node i of n its slots and introduces it to the first node.
func join(ctx context.Context, c *redis.Client, first *Server, i, n int) error {
	if err := c.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
		return err
	}
	if err := c.ClusterAddSlotsRange(ctx, i*slots/n, (i+1)*slots/n-1).Err(); err != nil {
		return err
	}
	if i == 0 {
		return nil
	}
	return c.ClusterMeet(ctx, "127.0.0.1", strconv.Itoa(first.port)).Err()
}

// whole checks that a node knows all n nodes and that all slots are served.
func whole(ctx context.Context, c *redis.Client, n int) error {
	info, err := c.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	for _, want := range []string{"cluster_state:ok", fmt.Sprintf("cluster_size:%d", n), fmt.Sprintf("cluster_known_nodes:%d", n)} {
		if !strings.Contains(info, want+"\r\n") {
			return fmt.Errorf("the Cluster is not whole: no %s", want)
		}
	}
	return nil
}
