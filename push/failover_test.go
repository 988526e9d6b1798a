//go:build unix

package push_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// The master of the queue dies: a Producer finds the replica that has taken its place by
// itself, though its client would not look for an hour.
func TestAProducerFollowsAFailover(t *testing.T) {
	t.Parallel()
	args := redistest.Args("--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no")
	nodes := redistest.StartCluster(t, 3, args)
	options := &redis.ClusterOptions{ClusterStateReloadInterval: time.Hour, DialerRetries: 1}
	for _, node := range nodes {
		options.Addrs = append(options.Addrs, node.Addr())
	}
	client := redis.NewClusterClient(options)
	t.Cleanup(func() { _ = client.Close() })
	master := redistest.NodeOf(t, nodes, shard.Named(client, "", 1)[0].QueueKey(push.Default.Queue(), "pending"))
	redistest.Replica(t, master, nodes, args)
	producer := push.NewProducer(client, "", 0).WithShards(1)
	n := order("before", func(*push.Notification) {})
	if _, err := producer.Enqueue(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	master.Kill(t)
	n.ID = "after"
	for deadline := time.Now().Add(time.Minute); ; {
		_, err := producer.Enqueue(t.Context(), n)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
