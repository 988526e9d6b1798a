package worker_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// A waiter is a Sender that has its first push wait for a connection, and asks before each
// whether it may leave.
type waiter struct {
	waits     chan struct{} // is closed once the first does
	connected chan struct{}
	asked     atomic.Int64
	left      atomic.Int64
}

func (w *waiter) Send(ctx context.Context, _ *push.Notification, _ push.Target) providers.Outcome {
	if w.asked.Add(1) == 1 {
		close(w.waits)
		<-w.connected
	}
	if !providers.Depart(ctx) {
		return providers.MissedOutcome()
	}
	w.left.Add(1)
	return providers.Outcome{Kind: providers.Delivered, Reason: providers.OK}
}

func (*waiter) Close() error { return nil }

// A worker is taken for dead while a push waits for a connection. The push does not leave,
// and nothing becomes of its job before that is back on the queue.
func TestNothingLeavesThatIsAnotherWorkers(t *testing.T) {
	client := oneRedis(t)
	r := newRig(t, client, unlimited)
	sender := &waiter{waits: make(chan struct{}), connected: make(chan struct{})}
	r.with(sender)
	r.start()
	r.enqueue(to("taken"))
	<-sender.waits
	workers, task := home(client).Key("signs"), queueKey(client, push.Default.Queue(), "t:taken")
	own := client.ZRange(t.Context(), workers, 0, -1).Val()
	if len(own) != 1 || client.HGet(t.Context(), task, "worker").Val() != own[0] {
		t.Fatalf("the workers are %q, and the job is of %q", own, client.HGet(t.Context(), task, "worker").Val())
	}
	must(t, client.ZAdd(t.Context(), workers, redis.Z{Score: 0, Member: own[0]}).Err()) // as another one does
	wait(t, func() bool { return client.ZCard(t.Context(), workers).Val() == 2 })
	close(sender.connected)
	r.settled(1) // by another visit
	if record := r.record("taken"); record.State != push.Delivered || record.Attempts != 1 || sender.left.Load() != 1 || sender.asked.Load() != 2 {
		t.Errorf("%d of %d pushes have left, record %+v", sender.left.Load(), sender.asked.Load(), record)
	}
}
