package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// A waiter is a Sender. Its first push waits for a connection, and each push checks its departure.
type waiter struct {
	waits, connected chan struct{} // waits is closed once the first push waits
	asked, left      atomic.Int64
}

func (w *waiter) Send(_ context.Context, _ *push.Notification, _ push.Target, departure providers.Departure) providers.Outcome {
	if w.asked.Add(1) == 1 {
		close(w.waits)
		<-w.connected
	}
	if !departure.Start() {
		return providers.TooLateOutcome()
	}
	w.left.Add(1)
	return providers.Outcome{Kind: providers.Delivered, Reason: providers.OK}
}

func (*waiter) Close() error { return nil }

// A push does not leave if it waited too long for a connection, or if its worker counts as dead. Its
// notification is admitted again.
func TestLatePushIsAdmittedAgain(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(r *rig){
		"it is too late": func(r *rig) {
			late := time.Now().Add(100 * time.Millisecond)
			wait(r.t, func() bool { return time.Now().After(late) })
		},
		"it is another worker's": func(r *rig) {
			workers := home(r.client).Key("signs")
			own := r.client.ZRange(r.t.Context(), workers, 0, -1).Val()
			must(r.t, r.client.ZAdd(r.t.Context(), workers, redis.Z{Score: 0, Member: own[0]}).Err()) // as another worker does
			wait(r.t, func() bool { return r.client.ZCard(r.t.Context(), workers).Val() == 2 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, oneRedis(t), limits.New(throttle.Policy{MinGap: time.Millisecond}, nil))
			sender := &waiter{waits: make(chan struct{}), connected: make(chan struct{})}
			r.with(sender)
			r.start()
			r.enqueue(to("late"))
			<-sender.waits
			meanwhile(r)
			connected := time.Now()
			close(sender.connected)
			r.settled(1)
			record, admitted := r.record("late"), r.admitted("u1", "late")
			if record.State != push.Delivered || record.Attempts != 1 || sender.left.Load() != 1 || admitted.Before(connected.Add(-time.Millisecond)) {
				t.Errorf("%d of %d pushes have left, the last admitted %s after there was a connection; record %+v", sender.left.Load(), sender.asked.Load(), admitted.Sub(connected), record)
			}
		})
	}
}
