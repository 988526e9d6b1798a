package queue

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/push"
)

// While a shard's slot moves, and the job of a crashed worker is on another master than its
// lease already, it is not taken for one that cannot be read.
func TestACrashedJobMoves(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}, ContextTimeoutEnabled: true})
	defer client.Close()
	redistest.Divide(t, client, "pushpace", "1")
	ctx, queue, at := t.Context(), push.Default.Queue(), storetest.First(t, store.NewRecords(client, "", 0))
	task := at.QueueKey(queue, "t:n-1")
	for _, err := range []error{
		client.HSet(ctx, task, "msg", store.Message("n-1", at.Queue(queue), []byte("{}"), nil), "state", "active", "worker", "dead").Err(),
		client.LPush(ctx, at.QueueKey(queue, "active"), "n-1").Err(),
		client.ZAdd(ctx, at.QueueKey(queue, "lease"), redis.Z{Score: 1, Member: "n-1"}).Err(),
	} {
		if err != nil {
			t.Fatal(err)
		}
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
		if err != nil {
			t.Fatal(err)
		}
	}
	var ends atomic.Int64
	config := configOf(t, client)
	config.SetAside = func(push.State) { ends.Add(1) }
	c := newClient(config)
	look := func() ([]any, error) {
		return c.EvalSha(ctx, leasesHash, []string{at.QueueKey(queue, "lease")}, time.Now().Unix(), at.QueueKey(queue, "t:")).Slice()
	}
	if messages, err := look(); err == nil || ends.Load() > 0 {
		t.Errorf("while its slot moves: %q, %v, %d set aside", messages, err, ends.Load())
	}
	if orphans, err := c.orphans(ctx, queue, []string{"dead"}); err == nil {
		t.Errorf("while its slot moves the dead worker had %d", len(orphans))
	}
	redistest.Reshard(t, from, to, nodes, redistest.Moving{Keys: 10}, slot)
	if messages, err := look(); err != nil || len(messages) != 1 || ends.Load() > 0 {
		t.Errorf("after it: %q, %v, %d set aside", messages, err, ends.Load())
	}
	if orphans, err := c.orphans(ctx, queue, []string{"dead"}); err != nil || len(orphans) != 1 {
		t.Errorf("after it the dead worker had %d, %v", len(orphans), err)
	}
}
