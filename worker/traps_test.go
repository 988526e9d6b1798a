package worker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
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

// A user's jobs that are due in the same second go out in the order they came,
// though asynq brings them back in the order of their IDs, which leaves one of
// each second in order.
func TestOrderIsTheSlotsNotTheIDs(t *testing.T) {
	r := newRig(t, oneRedis(t), limits.New(throttle.Policy{MinGap: 250 * time.Millisecond}, nil))
	r.options.MaxWait = 1600 * time.Millisecond
	r.start()
	tries(t, func(try int) (fault string) {
		const n, late = 14, 4 // who misses its slot on a busy machine stands behind
		user := fmt.Sprint("u", try)
		for i := range n {
			one := to(fmt.Sprintf("%d-%02d", try, n-i)) // the first to come has the last ID
			one.User = user
			r.enqueue(one)
			wait(t, func() bool {
				timeline := r.timeline(user)
				return slices.ContainsFunc(timeline.Admissions[throttle.General], func(a throttle.Entry) bool { return a.ID == one.ID }) ||
					slices.ContainsFunc(timeline.Bookings, func(b throttle.Booking) bool { return b.ID == one.ID })
			})
		}
		r.settled(n * (try + 1))
		var ids []string
		for _, e := range r.pushed("") {
			if strings.HasPrefix(e.Notification, fmt.Sprint(try, "-")) {
				ids = append(ids, e.Notification)
			}
		}
		slices.Reverse(ids)
		if len(ids) != n || sorted(ids) < n-late {
			return fmt.Sprintf("they went out as %v, reversed", ids)
		}
		return ""
	})
}

// sorted is how many are in order when the others are left out.
func sorted(ids []string) int {
	longest := make([]int, len(ids)) // that ends with each
	for i := range ids {
		for j := range i {
			if ids[j] < ids[i] {
				longest[i] = max(longest[i], longest[j])
			}
		}
		longest[i]++
	}
	return slices.Max(longest)
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

// An idle worker sends at most 50 commands a second.
func TestAnIdleWorkerLeavesRedisAlone(t *testing.T) {
	client, counter := oneRedis(t), new(commands)
	redistest.Hook(client, counter)
	r := newRig(t, client, unlimited)
	r.start()
	r.enqueue(to("first")) // everything is loaded
	r.settled(1)
	start, before := time.Now(), counter.n.Load()
	timer := time.NewTimer(2 * time.Second)
	defer timer.Stop()
	<-timer.C
	if rate := float64(counter.n.Load()-before) / time.Since(start).Seconds(); rate > 50 {
		t.Errorf("%.0f commands a second", rate)
	} else {
		t.Logf("%.0f commands a second", rate)
	}
}
