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
