package worker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// A refusal is of what wakes the jobs that a route holds in one shard, as of a Redis that
// does not write.
type refusal struct {
	shard string
	over  atomic.Bool
	n     atomic.Int64
}

func (f *refusal) hits(cmd redis.Cmder) bool {
	args := cmd.Args()
	if f.over.Load() || len(args) < 5 || args[2] != 14 || !strings.HasSuffix(fmt.Sprint(args[4]), ":held:shop/apns") || !strings.Contains(fmt.Sprint(args[4]), f.shard) {
		return false
	}
	f.n.Add(1)
	cmd.SetErr(errors.New("MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk"))
	return true
}

func (*refusal) DialHook(next redis.DialHook) redis.DialHook { return next }
func (f *refusal) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if f.hits(cmd) {
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}
func (f *refusal) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var others []redis.Cmder
		for _, cmd := range cmds {
			if !f.hits(cmd) {
				others = append(others, cmd)
			}
		}
		if len(others) == 0 {
			return nil
		}
		return next(ctx, others)
	}
}

// A shard that refuses writes keeps back what its route holds, and no other shard's.
func TestAShardThatRefusesKeepsItsOwnBack(t *testing.T) {
	t.Parallel()
	const n, shards = 600, 8
	client, refused := realRedis(t), &refusal{shard: "shard-03-"}
	redistest.Hook(client, refused)
	r := newRig(t, client, hourly)
	r.divide(shards)
	r.hasten(time.Second, 0)
	r.apns.RespondAlways(standin.Answer{Status: http.StatusServiceUnavailable})
	r.start()
	r.enqueueRanked(n)
	wait(t, r.seen.isBroken)
	r.apns.Recover()
	others := 0 // than those of the shard
	in := func(id string) bool { return shard.Of(shards, "shop", id) == 3 }
	for i := range n {
		if !in(fmt.Sprintf("%s-%d", []push.Priority{push.Bulk, push.Default, push.Critical}[i%3], i)) {
			others++
		}
	}
	wait(t, func() bool {
		sent := slices.DeleteFunc(r.pushed(""), func(e standin.Entry) bool { return in(e.Notification) })
		return len(sent) == others && refused.n.Load() > 0
	})
	refused.over.Store(true)
	if counts := r.settled(n); counts.Ended[push.Delivered] != n {
		t.Errorf("counts %+v", counts)
	}
}
