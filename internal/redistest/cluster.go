//go:build unix

package redistest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redisserver"
)

// slots is the number of hash slots of a Cluster.
const slots = 16384

// StartCluster runs a Cluster of n masters until the test ends, and returns once every node serves
// its part of the hash slots.
func StartCluster(t testing.TB, n int, opts ...Option) []*Server {
	t.Helper()
	require(t)
	nodes := make([]*Server, n)
	for i := range nodes {
		nodes[i] = start(t, redisserver.Options{Dir: t.TempDir(), Bus: true}, append([]Option{Args("--cluster-enabled", "yes")}, opts...)...)
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
		if err := redisserver.Poll(ctx, func() error { return checkCluster(ctx, c, n) }); err != nil {
			t.Fatalf("redistest: node %s: %v", node.Addr(), err)
		}
	}
	return nodes
}

// OverAll runs the test on the embedded Redis, on a real Redis and on a Cluster, each time with a
// new prefix.
func OverAll(t *testing.T, test func(t *testing.T, client redis.UniversalClient, prefix string)) {
	t.Helper()
	t.Parallel()
	on := func(name string, open func(t *testing.T) redis.UniversalClient) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, prefix := open(t), Prefix()
			t.Cleanup(func() { _ = client.Close() })
			test(t, client, prefix)
		})
	}
	on("embedded", func(t *testing.T) redis.UniversalClient {
		return redis.NewClient(&redis.Options{Addr: Miniredis(t).Addr(), ContextTimeoutEnabled: true})
	})
	on("redis", func(t *testing.T) redis.UniversalClient { return Shared(t).Client(t) })
	on("cluster", func(t *testing.T) redis.UniversalClient { return cluster(t) })
}

// cluster returns a client of a Cluster of three masters.
func cluster(t *testing.T) redis.UniversalClient {
	t.Helper()
	var addresses []string
	for _, node := range StartCluster(t, 3) {
		addresses = append(addresses, node.Addr())
	}
	return connectCluster(t, addresses)
}

// connectCluster is Connect for a Cluster, with a client that confines scripts to one hash slot.
func connectCluster(t *testing.T, addresses []string) redis.UniversalClient {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addresses, ContextTimeoutEnabled: true, PoolSize: 100,
		DialTimeout: Patience, ReadTimeout: Patience, WriteTimeout: Patience, PoolTimeout: Patience,
	})
	Hook(client, new(oneSlotScripts))
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Hook adds a hook to the client, for a Cluster to each node's client.
func Hook(client redis.UniversalClient, hook redis.Hook) {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		client.AddHook(hook)
		return
	}
	hooked := false
	each := func(_ context.Context, node *redis.Client) error {
		if hooked {
			node.AddHook(hook)
		}
		return nil
	}
	for range 2 { // the first pass may only connect to them
		if err := cluster.ForEachMaster(context.Background(), each); err != nil {
			panic(err)
		}
		hooked = true
	}
	cluster.OnNewNode(func(node *redis.Client) { node.AddHook(hook) })
}

// join gives node i of n its hash slots and introduces it to the first node.
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
	return c.ClusterMeet(ctx, "127.0.0.1", strconv.Itoa(first.server.Port)).Err()
}

// checkCluster checks that all hash slots are served, and that a node knows all n nodes and has a link to
// each: messages do not reach a node without a link.
func checkCluster(ctx context.Context, c *redis.Client, n int) error {
	info, err := c.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	for _, want := range []string{"cluster_state:ok", fmt.Sprintf("cluster_slots_assigned:%d", slots), fmt.Sprintf("cluster_known_nodes:%d", n)} {
		if !strings.Contains(info, want+"\r\n") {
			return fmt.Errorf("the Cluster is not complete: CLUSTER INFO lacks %s", want)
		}
	}
	nodes, err := c.ClusterNodes(ctx).Result()
	if err != nil {
		return err
	}
	if strings.Contains(nodes, "handshake") || strings.Contains(nodes, "disconnected") {
		return fmt.Errorf("the Cluster is not complete: a node has no link to another node")
	}
	return nil
}

// Replica runs a replica of a Cluster's node until the test ends. It returns when the replica could
// replace the node, and both report their link. nodes are all nodes of the Cluster.
func Replica(t testing.TB, of *Server, nodes []*Server, opts ...Option) *Server {
	t.Helper()
	s := start(t, redisserver.Options{Dir: t.TempDir(), Bus: true}, append([]Option{Args("--cluster-enabled", "yes")}, opts...)...)
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	c := s.Client(t)
	id, err := of.Client(t).Do(ctx, "CLUSTER", "MYID").Text()
	if err == nil {
		err = c.ClusterMeet(ctx, "127.0.0.1", strconv.Itoa(of.server.Port)).Err()
	}
	if err != nil {
		t.Fatalf("redistest: replica %s: %v", s.Addr(), err)
	}
	for _, node := range append([]*Server{s}, nodes...) {
		c := node.Client(t)
		if err := redisserver.Poll(ctx, func() error { return checkCluster(ctx, c, len(nodes)+1) }); err != nil {
			t.Fatalf("redistest: node %s: %v", node.Addr(), err)
		}
	}
	err = redisserver.Poll(ctx, func() error { return c.ClusterReplicate(ctx, id).Err() })
	if err == nil {
		err = redisserver.Poll(ctx, func() error {
			info, err := c.Info(ctx, "replication").Result()
			if err == nil && !strings.Contains(info, "master_link_status:up\r\n") {
				err = fmt.Errorf("the replica has no link to its master")
			}
			return err
		})
	}
	if err == nil {
		master := of.Client(t)
		err = redisserver.Poll(ctx, func() error {
			info, err := master.Info(ctx, "replication").Result()
			if err == nil && !strings.Contains(info, fmt.Sprintf("port=%d,state=online", s.server.Port)) {
				err = fmt.Errorf("the master does not report the replica as online")
			}
			return err
		})
	}
	if err != nil {
		t.Fatalf("redistest: replica %s: %v", s.Addr(), err)
	}
	return s
}

// NodeOf returns the node that has the key, by the hash slots that StartCluster has assigned.
func NodeOf(t testing.TB, nodes []*Server, key string) *Server {
	t.Helper()
	slot, err := nodes[0].Client(t).ClusterKeySlot(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	for i, node := range nodes {
		if int(slot) < (i+1)*slots/len(nodes) {
			return node
		}
	}
	return nil
}
