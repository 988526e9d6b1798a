package queue

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/push"
)

// During the migration of a hash slot, a dead worker's job may already be on another master than the list
// that names it. The reap must not treat the job as ended.
func TestReapDuringHashSlotMigrationKeepsJob(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}, ContextTimeoutEnabled: true})
	defer client.Close()
	ctx, queue, at := t.Context(), push.Default.Queue(), storetest.First(t, store.NewRecords(client, "", 0).WithShards(1))
	task := at.QueueKey(queue, "t:n-1")
	for _, err := range []error{
		client.HSet(ctx, task, "msg", store.Message("n-1", at.Queue(queue), []byte("{}"), nil), "state", "active", "worker", "dead/1").Err(),
		client.LPush(ctx, at.QueueKey(queue, "active"), "n-1").Err(),
	} {
		must(t, err)
	}
	from := redistest.NodeOf(t, nodes, task)
	to := nodes[0]
	if from == to {
		to = nodes[1]
	}
	slot := int(client.ClusterKeySlot(ctx, task).Val())
	id := func(node *redistest.Server) any { return node.Client(t).Do(ctx, "CLUSTER", "MYID").Val() }
	host, port, _ := strings.Cut(to.Addr(), ":")
	for _, err := range []error{
		to.Client(t).Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", id(from)).Err(),
		from.Client(t).Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", id(to)).Err(),
		from.Client(t).Migrate(ctx, host, port, task, 0, 10*time.Second).Err(),
	} {
		must(t, err)
	}
	if n, err := at.Reap(ctx); err == nil || n > 0 {
		t.Errorf("while its slot moves %d came back, %v", n, err)
	}
	redistest.Reshard(t, from, to, nodes, redistest.Moving{Keys: 10}, slot)
	if n, err := at.Reap(ctx); err != nil || n != 1 {
		t.Errorf("after it %d came back, %v", n, err)
	}
}
