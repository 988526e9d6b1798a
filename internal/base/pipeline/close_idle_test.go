package pipeline

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// The pipeline of a master that has left the Cluster is closed.
func TestPipelineOfDepartedMasterCloses(t *testing.T) {
	servers := []*miniredis.Miniredis{miniredis.RunT(t), miniredis.RunT(t)}
	client := redis.NewClusterClient(&redis.ClusterOptions{ContextTimeoutEnabled: true,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{
				{Start: 0, End: 8191, Nodes: []redis.ClusterNode{{Addr: servers[0].Addr()}}},
				{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: servers[1].Addr()}}},
			}, nil
		},
	})
	defer client.Close()
	shared := share(client, Options{})
	defer shared.close()
	ask := func(key string) *Pipeline {
		p, err := For(t.Context(), shared, key)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	left, stays := ask("a"), ask("b")
	if left == stays {
		t.Fatal("both keys are on one node")
	}
	shared.lastCleanup.Store(time.Now().Add(-2 * idleLimit).UnixNano())
	for _, m := range shared.masters {
		m.used.Store(time.Now().Add(-2 * idleLimit).UnixNano())
	}
	if again := ask("b"); again != stays {
		t.Error("one that is asked for is another")
	}
	shared.ending.Wait()
	if !left.Closed() || stays.Closed() || len(shared.masters) != 1 {
		t.Errorf("of the one that left: closed %t, of the other %t, %d kept", left.Closed(), stays.Closed(), len(shared.masters))
	}
	if again := ask("a"); again == left || again.Closed() {
		t.Error("one that comes back has a closed pipeline")
	}
}
