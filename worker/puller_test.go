package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
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
	client := oneRedis(t)
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
}
