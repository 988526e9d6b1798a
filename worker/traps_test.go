package worker_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// A provider that takes and never answers holds up its own notifications only.
func TestAStuckProviderHoldsUpItsOwnOnly(t *testing.T) {
	r := newRig(t, oneRedis(t), unlimited)
	r.options.Concurrency = 4
	r.apns.RespondAlways(standin.Answer{Fault: standin.BlackHole})
	r.start()
	const each = 40
	for i := range each {
		r.enqueue(to(fmt.Sprintf("stuck-%d", i)))
	}
	wait(t, func() bool { return r.apns.Count().InFlight >= 4 })
	for i := range each {
		r.enqueue(to(fmt.Sprintf("flows-%d", i), push.Target{Platform: push.FCM, Token: googleToken}))
	}
	wait(t, func() bool { return len(r.fcm.Ledger().Entries()) == each })
	if peak := r.apns.Count().Peak; peak > 4 {
		t.Errorf("%d pushes were in flight to the stuck provider, at most 4 may be", peak)
	}
	r.apns.Recover()
}

// commands counts what a client sends.
type commands struct{ n atomic.Int64 }

func (*commands) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c *commands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { c.n.Add(1); return next(ctx, cmd) }
}
func (c *commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// An idle worker sends about 20 commands a second, five of them to the intake. On a Cluster it polls
// the intake's three queues one by one, which takes ten more. The bound allows for the short count.
func TestAnIdleWorkerLeavesRedisAlone(t *testing.T) {
	client, counter := oneRedis(t), new(commands)
	redistest.Hook(client, counter)
	r := newRig(t, client, unlimited)
	r.divide(1)
	r.start()
	r.enqueue(to("first")) // everything is loaded
	r.settled(1)
	start, before := time.Now(), counter.n.Load()
	most := 26.0
	if _, cluster := pipeline.OfCluster(client); cluster {
		most = 36
	}
	timer := time.NewTimer(2 * time.Second)
	defer timer.Stop()
	<-timer.C
	if rate := float64(counter.n.Load()-before) / time.Since(start).Seconds(); rate > most {
		t.Errorf("%.0f commands a second", rate)
	} else {
		t.Logf("%.0f commands a second", rate)
	}
}
