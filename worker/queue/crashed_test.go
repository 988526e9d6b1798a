package queue

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/ledger/ledgertest"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// crashedJobs leaves jobs on the queue as a worker does that crashed with them, each
// with a message that asynq cannot read.
func crashedJobs(t *testing.T, client *redis.Client, queue string, n int) {
	t.Helper()
	ctx, long := t.Context(), float64(time.Now().Add(-5*time.Minute).Unix())
	for i := range n {
		id := fmt.Sprint("garbage-", i)
		client.HSet(ctx, asynqwire.QueueKey(queue, "t:"+id), "msg", "\xff\xff\xff", "state", "active")
		client.LPush(ctx, asynqwire.QueueKey(queue, "active"), id)
		if err := client.ZAdd(ctx, asynqwire.QueueKey(queue, "lease"), redis.Z{Score: long, Member: id}).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// A job that a crashed worker has left and nobody can read is set aside and counted.
func TestWhatCrashedWorkersLeft(t *testing.T) {
	t.Parallel()
	options := redistest.Shared(t).Options()
	options.DB = redistest.Database(t)
	client := redistest.Connect(t, options)
	queue := push.Default.Queue()
	crashedJobs(t, client, queue, 3)
	var ends atomic.Int64
	c := newClient(Config{
		Client: client, Records: ledgertest.First(t, ledger.NewRecords(client, "", 0)), Role: leads, Hands: NewHands(8), SetAside: func(push.State) { ends.Add(1) },
		Log: slog.New(slog.DiscardHandler), RedisLog: slog.New(slog.DiscardHandler),
	})
	for range 2 {
		cmd := c.EvalSha(t.Context(), leasesHash, []string{asynqwire.QueueKey(queue, "lease")}, time.Now().Unix(), asynqwire.QueueKey(queue, "t:"))
		if messages, err := cmd.Slice(); err != nil || len(messages) != 0 {
			t.Errorf("%q, %v", messages, err)
		}
	}
	if left := client.ZCard(t.Context(), asynqwire.QueueKey(queue, "lease")).Val(); ends.Load() != 3 || left != 0 {
		t.Errorf("%d were set aside, %d are left", ends.Load(), left)
	}
}

// While a shard's slot moves, and the job of a crashed worker is on another master than its
// lease already, it is not taken for one that cannot be read.
func TestACrashedJobMoves(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}, ContextTimeoutEnabled: true})
	defer client.Close()
	redistest.Divide(t, client, "pushpace", "1")
	ctx, queue, at := t.Context(), push.Default.Queue(), ledgertest.First(t, ledger.NewRecords(client, "", 0))
	task := at.QueueKey(queue, "t:n-1")
	for _, err := range []error{
		client.HSet(ctx, task, "msg", asynqwire.Message("n-1", at.Queue(queue), []byte("{}"), nil), "state", "active", "worker", "dead").Err(),
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
	c := newClient(Config{
		Client: client, Records: at, Role: leads, Hands: NewHands(8), SetAside: func(push.State) { ends.Add(1) },
		Log: slog.New(slog.DiscardHandler), RedisLog: slog.New(slog.DiscardHandler),
	})
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

// What cannot be set aside is left for later at the first error, and at once when
// the server ends.
func TestWhatCannotBeSetAside(t *testing.T) {
	t.Parallel()
	options := redistest.Shared(t).Options()
	options.DB = redistest.Database(t)
	client := redistest.Connect(t, options)
	queue := push.Default.Queue()
	crashedJobs(t, client, queue, 20)
	client.Set(t.Context(), "pushpace:letters", "spoiled", 0) // no letter can be written
	var log strings.Builder
	s := NewServer(Config{
		Client: client, Records: ledgertest.First(t, ledger.NewRecords(client, "", 0)), Role: leads, Hands: NewHands(8), SetAside: func(push.State) { t.Error("one is set aside") },
		Log: slog.New(slog.DiscardHandler), RedisLog: slog.New(slog.NewTextHandler(&log, nil)),
	})
	look := func() error {
		return s.client.EvalSha(t.Context(), leasesHash, []string{asynqwire.QueueKey(queue, "lease")}, time.Now().Unix(), asynqwire.QueueKey(queue, "t:")).Err()
	}
	if err := look(); err != nil || strings.Count(log.String(), "not set aside yet") != 1 {
		t.Errorf("%v\n%s", err, &log)
	}
	s.Shutdown()
	if err := look(); err == nil {
		t.Error("it looks on when the server has ended")
	}
}
