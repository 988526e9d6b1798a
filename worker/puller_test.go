package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
)

// failing fails the first commands that it is asked to.
type failing struct {
	left  atomic.Int64
	match func(redis.Cmder) bool
}

func (*failing) DialHook(next redis.DialHook) redis.DialHook { return next }
func (f *failing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if f.match(cmd) && f.left.Add(-1) >= 0 {
			err := errors.New("the connection broke")
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}
func (*failing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A delivered notification whose job cannot be ended at once is not sent again.
func TestAFailedEndIsRepeated(t *testing.T) {
	overRedis(t, func(t *testing.T, client redis.UniversalClient) {
		r := newRig(t, client, unlimited)
		done := &failing{match: func(cmd redis.Cmder) bool {
			for _, arg := range cmd.Args() {
				if key, ok := arg.(string); ok && strings.HasSuffix(key, ":processed") {
					return true
				}
			}
			return false
		}}
		done.left.Store(3)
		// outermost: before the commands share pipelines
		own := redistest.Another(t, client)
		redistest.Hook(own, done)
		r.options.Queue = own
		r.start()
		r.enqueue(to("stubborn"))
		counts := r.settled(1)
		if counts.Ended[push.Delivered] != 1 || len(r.pushed("stubborn")) != 1 {
			t.Errorf("counts %+v, pushed %+v", counts, r.pushed("stubborn"))
		}
		record := r.record("stubborn")
		if len(record.Outcomes) != 1 || record.Outcomes[0].Kind != "delivered" {
			t.Errorf("record %+v", record)
		}
		wait(t, func() bool { audit, err := r.control().Audit(t.Context()); return err == nil && audit.Queued == 0 })
		if done.left.Load() > 0 {
			t.Error("nothing has failed")
		}
	})
}

// lostReturn is a client's hook that loses the answer when a job is returned to its
// queue first, and has taken do what happens then.
type lostReturn struct {
	taken           func(keys []string)
	returns, looked atomic.Int64
}

func (*lostReturn) DialHook(next redis.DialHook) redis.DialHook { return next }
func (l *lostReturn) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		switch {
		case cmd.Name() == "hget" && l.returns.Load() > 0:
			l.looked.Add(1)
		case cmd.Name() == "evalsha" && len(args) > 11 && strings.HasSuffix(fmt.Sprint(args[6]), ":retry") && args[11] == "waits":
			err := next(ctx, cmd)
			if err == nil && l.returns.Add(1) == 1 {
				l.taken([]string{fmt.Sprint(args[3]), fmt.Sprint(args[4]), fmt.Sprint(args[5]), fmt.Sprint(args[6])})
				err = errors.New("the connection broke")
				cmd.SetErr(err)
			}
			return err
		}
		return next(ctx, cmd)
	}
}
func (*lostReturn) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A worker that does not hear that its job is back on the queue does not take it
// from the next worker's hands: a third would send it beside that one.
func TestAReturnedJobIsTheNextWorkers(t *testing.T) {
	client := realRedis(t)
	r := newRig(t, client, limits.New(every(time.Hour), nil))
	lost := &lostReturn{taken: func(keys []string) { // by another worker, at once
		ctx := context.Background()
		must(t, client.ZRem(ctx, keys[3], "waits").Err())
		must(t, client.HSet(ctx, keys[0], "state", "active").Err())
		must(t, client.LPush(ctx, keys[1], "waits").Err())
		must(t, client.ZAdd(ctx, keys[2], redis.Z{Score: float64(time.Now().Add(time.Minute).Unix()), Member: "waits"}).Err())
	}}
	own := redistest.Another(t, client)
	redistest.Hook(own, lost)
	r.options.Queue = own
	r.start()
	r.enqueue(to("first"))
	r.settled(1)
	r.enqueue(to("another")) // has Redis know the script
	r.deferred("another")
	wait(t, func() bool {
		return client.HGet(t.Context(), queueKey(client, push.Default.Queue(), "t:another"), "state").Val() == "retry"
	})
	r.enqueue(to("waits"))
	wait(t, func() bool { return lost.looked.Load() > 0 || lost.returns.Load() > 1 })
	if state := client.HGet(t.Context(), queueKey(client, push.Default.Queue(), "t:waits"), "state").Val(); state != "active" || lost.returns.Load() != 1 {
		t.Errorf("the job is %s, and was returned %d times", state, lost.returns.Load())
	}
	must(t, client.LRem(t.Context(), queueKey(client, push.Default.Queue(), "active"), 0, "waits").Err())
}

// What was pulled ahead and not handed out when the worker stops is on the
// queue again.
func TestWhatWasPulledAheadIsPutBack(t *testing.T) {
	overRedis(t, func(t *testing.T, client redis.UniversalClient) {
		r := newRig(t, client, unlimited)
		r.options.Concurrency, r.options.MaxWaiting = 1, 1 // three in hand
		r.options.ShutdownTimeout = time.Second
		r.apns.RespondAlways(standin.Answer{Delay: 300 * time.Millisecond})
		const n = 12
		for i := range n {
			r.enqueue(to(fmt.Sprintf("ahead-%d", i)))
		}
		stop := r.start()
		wait(t, func() bool { return r.apns.Count().InFlight > 0 })
		stop()
		audit, err := r.control().Audit(t.Context())
		must(t, err)
		if audit.InFlight != 0 || audit.Difference != 0 {
			t.Errorf("after the worker stopped: %+v", audit)
		}
		r.apns.Recover()
		r.options.Concurrency = 8
		r.start()
		if counts := r.settled(n); counts.Ended[push.Delivered] != n {
			t.Errorf("counts %+v", counts)
		}
	})
}
