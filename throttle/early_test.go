package throttle

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
)

// beforeMoves calls f before the first script after a claim, which moves its stamp, and
// counts the others.
type beforeMoves struct {
	f       func()
	moves   int
	scripts int
}

func (h *beforeMoves) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *beforeMoves) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch {
		case cmd.Name() != "evalsha":
		case cmd.Args()[1] == moveScript.Hash():
			h.moves++
			h.f()
		default:
			h.scripts++
		}
		return next(ctx, cmd)
	}
}

func (h *beforeMoves) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A claim whose stamp was early is granted by a stamp that holds, without the script. When
// somebody was admitted meanwhile, by whichever stamp, the script decides instead, and when
// it was given back it is admitted anew. What was admitted elsewhere stays.
func TestAnEarlyStampIsMoved(t *testing.T) {
	t.Parallel()
	const step = 5 * time.Millisecond
	for name, c := range map[string]struct {
		meanwhile func(ctx context.Context, client *redis.Client, sent string)
		want      Status
		scripts   bool
		stays     bool // though it is not granted
	}{
		"alone": {func(context.Context, *redis.Client, string) {}, Granted, false, false},
		"another later": {func(ctx context.Context, client *redis.Client, sent string) {
			client.ZAdd(ctx, sent, redis.Z{Score: float64(start.Add(step).UnixMicro()), Member: "other"})
		}, Refused, true, false},
		"another at the same instant": {func(ctx context.Context, client *redis.Client, sent string) {
			own := client.ZScore(ctx, sent, "n").Val()
			client.ZAdd(ctx, sent, redis.Z{Score: own, Member: "other"})
		}, Refused, true, false},
		"given back": {func(ctx context.Context, client *redis.Client, sent string) { client.Del(ctx, sent) }, Granted, true, false},
		"the same elsewhere, and another behind": {func(ctx context.Context, client *redis.Client, sent string) {
			at := float64(start.Add(step).UnixMicro())
			client.ZAdd(ctx, sent, redis.Z{Score: at, Member: "n"}, redis.Z{Score: at + 1, Member: "other"})
		}, Refused, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, clock := redistest.Miniredis(t), newFakeClock()
			server.SetTime(clock.now())
			client, other := redistest.Connect(t, &redis.Options{Addr: server.Addr()}), redistest.Connect(t, &redis.Options{Addr: server.Addr()})
			l := NewRedis(client, Options{Now: clock.now, Timeout: redistest.Patience})
			t.Cleanup(func() { _ = l.Close() })
			r := Request{User: "known", ID: "n", Scopes: []Scope{{General, Policy{MinGap: time.Minute}}}}
			if _, err := l.Acquire(t.Context(), r); err != nil { // from now on the clock is known
				t.Fatal(err)
			}
			r.User = "u"
			sent := l.user(&r).keys.sent
			hook := &beforeMoves{f: func() { c.meanwhile(t.Context(), other, sent) }}
			client.AddHook(hook)
			now := clock.now().Add(step)
			server.SetTime(now)
			d, err := l.Acquire(t.Context(), r)
			if err != nil || d.Status != c.want || hook.moves != 1 || hook.scripts > 0 != c.scripts {
				t.Fatalf("%+v, %v, by %d scripts", d, err, hook.scripts)
			}
			if d.Status == Granted && !stampHolds(d.At.UnixMicro(), now.UnixMicro()) {
				t.Errorf("it is granted at %v, and the time is %v", d.At, now)
			}
			if score, err := other.ZScore(t.Context(), sent, "n").Result(); d.Status == Granted && int64(score) != d.At.UnixMicro() || (err == nil) != (d.Status == Granted || c.stays) {
				t.Errorf("%+v, and %v counts, %v", d, score, err)
			}
		})
	}
}
