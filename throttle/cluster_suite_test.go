//go:build unix

package throttle_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/internal/throttletest"
)

// TestClusterPassesTheSuite runs the conformance suite on a Cluster.
func TestClusterPassesTheSuite(t *testing.T) {
	t.Parallel()
	client := startCluster(t)
	throttletest.Run(t, throttletest.Harness{
		Cannot: []throttletest.Ability{throttletest.SetClock},
		Claims: true,
		Slow:   true,
		New: func(t testing.TB) throttletest.Instance {
			prefix := redistest.Prefix()
			limiter := func() *throttle.Redis {
				c := client()
				t.Cleanup(func() { _ = c.Close() })
				return newLimiter(t, c, throttle.Options{Prefix: prefix, Horizon: throttletest.Horizon, Timeout: 10 * time.Second})
			}
			keys := client()
			t.Cleanup(func() { _ = keys.Close() })
			lasting := func() []string {
				var mu sync.Mutex
				var names []string
				err := keys.ForEachMaster(context.Background(), func(ctx context.Context, node *redis.Client) error {
					all, err := node.Keys(ctx, prefix+":*").Result()
					mu.Lock()
					defer mu.Unlock()
					for _, key := range all {
						if node.PTTL(ctx, key).Val() == -1 {
							names = append(names, key)
						}
					}
					return err
				})
				must(t, err)
				return names
			}
			return throttletest.Instance{Limiter: limiter(), Peer: limiter(), Lasting: lasting}
		},
	})
}

// startCluster starts a Cluster of three masters and returns a function that connects to it.
func startCluster(t *testing.T) func() *redis.ClusterClient {
	var addresses []string
	for _, node := range redistest.StartCluster(t, 3) {
		addresses = append(addresses, node.Addr())
	}
	return func() *redis.ClusterClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses, ContextTimeoutEnabled: true})
	}
}
