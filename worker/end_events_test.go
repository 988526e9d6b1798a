package worker_test

import (
	"context"
	"log/slog"
	"maps"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// At the level debug the log has a message for each end, without a token; at info it has no such message.
func TestDebugLogsEachEnd(t *testing.T) {
	client := oneRedis(t)
	for i, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo} {
		r := newRig(t, client, unlimited)
		log := new(eventually.Log)
		r.options.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level}))
		r.enqueue(to("good" + level.String()))
		dead := to("gone" + level.String())
		dead.Targets[0].Token = "deaddead"
		r.enqueue(dead)
		stop := r.start()
		r.settled(2 * (i + 1))
		stop()
		for name, state := range map[string]push.State{"good": push.Delivered, "gone": push.Undeliverable} {
			line := regexp.MustCompile(`level=DEBUG msg="notification ended" id=` + name + level.String() + ` app=\S+ platforms=\[apns\] outcome=` + string(state) + ` ms=\d+\n`)
			want := 0
			if level == slog.LevelDebug {
				want = 1
			}
			if got := len(line.FindAllString(log.String(), -1)); got != want {
				t.Errorf("%s at %s: %d lines, want %d: %s", name, level, got, want, log.String())
			}
		}
		if strings.Contains(log.String(), "deaddead") {
			t.Errorf("a token is in the log: %s", log.String())
		}
	}
}

// Each end is counted once, whether a worker, a producer or an operator caused it.
func TestEachEndIsCountedOnce(t *testing.T) {
	client := oneRedis(t)
	r := newRig(t, client, limits.New(every(time.Hour), nil))
	r.enqueue(to("spoiled"))
	key := queueKey(client, push.Default.Queue(), "t:spoiled")
	message, err := client.HGet(t.Context(), key, "msg").Bytes()
	must(t, err)
	const payload = 2 // field of asynq's message: the last value of a field counts
	message = protowire.AppendString(protowire.AppendTag(message, payload, protowire.BytesType), "{")
	must(t, client.HSet(t.Context(), key, "msg", message).Err())
	r.start()
	r.enqueue(to("sent"))
	r.settled(2)
	for _, id := range []string{"by a producer", "by an operator"} {
		n := to(id)
		n.NotBefore = time.Now().Add(time.Hour)
		r.enqueue(n)
	}
	must(t, r.producer.Cancel(t.Context(), "by a producer"))
	must(t, r.cancel(push.Ref{ID: "by an operator"}))
	r.enqueue(collapsing("older", ""))
	r.deferred("older")
	r.enqueue(collapsing("newer", ""))
	wait(t, func() bool { return client.ZCard(t.Context(), shardKey(client, "taken:due")).Val() == 0 })
	want := map[push.State]int{push.Delivered: 1, push.Rejected: 1, push.Cancelled: 2, push.Superseded: 1}
	wait(t, func() bool {
		r.seen.mu.Lock()
		defer r.seen.mu.Unlock()
		return maps.Equal(r.seen.ended, want)
	})
}

// unfreeing is a limiter that fails its first Cancel calls.
type unfreeing struct {
	throttle.Planner
	left atomic.Int32 // failures to come
}

func (l *unfreeing) Cancel(ctx context.Context, r throttle.Request) (throttle.FollowUp, error) {
	if l.left.Add(-1) >= 0 {
		return throttle.FollowUp{}, throttle.ErrUnavailable
	}
	return l.Planner.Cancel(ctx, r)
}

// If a slot cannot be given back at the end of its notification, a later visit by any worker gives it
// back. The end counts once.
func TestFailedSlotReleaseIsRetried(t *testing.T) {
	r := newRig(t, oneRedis(t), limits.New(every(time.Hour), nil))
	limiter := &unfreeing{Planner: r.limiter}
	limiter.left.Store(2)
	r.options.Limiter = limiter
	stop := r.start()
	r.enqueue(to("sent"))
	r.settled(1)
	n := to("expires")
	n.TTL = push.Duration(time.Second)
	r.enqueue(n)
	counts := r.settled(2)
	stop()
	r.start()
	wait(t, func() bool { return limiter.left.Load() < 0 && r.slots() == 1 })
	if told := r.seen.endings(push.Expired); counts.Ended[push.Expired] != 1 || told != 1 {
		t.Errorf("%+v, and %d are observed", counts, told)
	}
	r.accounts()
}
