package throttle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A listener hears the commands of a client.
type listener struct{ heard []string }

func (l *listener) hear(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		var words []string
		for _, arg := range cmd.Args() {
			words = append(words, text(arg))
		}
		l.heard = append(l.heard, strings.Join(words, " "))
	}
}

func (l *listener) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *listener) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		l.hear(cmd)
		return next(ctx, cmd)
	}
}

func (l *listener) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		l.hear(cmds...)
		return next(ctx, cmds)
	}
}

// heard are the commands of two that are let through at noon and one that waits.
func heard(t *testing.T, policy Policy) []string {
	l, on := newClockedLine(t), new(listener)
	if err := slotsScript.Load(t.Context(), l.limiter.client).Err(); err != nil {
		t.Fatal(err)
	}
	l.limiter.client.AddHook(on)
	for i, want := range []Status{Granted, Granted, Deferred} {
		r := l.request(fmt.Sprint("n", i), policy)
		r.Passes = i == 0
		if d, err := l.limiter.Acquire(t.Context(), r); err != nil || d.Status != want {
			t.Fatal(i, d, err)
		}
		if i == 0 {
			l.advance(time.Minute)
		}
	}
	return slices.DeleteFunc(on.heard, func(cmd string) bool { return strings.HasPrefix(cmd, "hello") || strings.HasPrefix(cmd, "client") })
}

// Without quiet hours the script is asked as ever. With them those who are let through in open
// hours cost the same commands, keys and arguments.
func TestQuietHoursCostNoCommand(t *testing.T) {
	t.Parallel()
	policy := Policy{MinGap: 10 * time.Second, Rates: []Rate{{3, time.Hour}}}
	without := heard(t, policy)
	policy.Quiet, policy.Night.Zone = hoursOf(t, "22:00-08:00"), zoneOf(t, "Europe/Berlin")
	with := heard(t, policy)
	last := len(without) - 1
	if !slices.Equal(with[:last], without[:last]) {
		t.Errorf("with quiet hours\n%s\nwithout\n%s", strings.Join(with[:last], "\n"), strings.Join(without[:last], "\n"))
	}
	if strings.Contains(without[last], "closed") || !strings.Contains(with[last], "closed") {
		t.Errorf("the script is asked by\n%s\nwith quiet hours by\n%s", without[last], with[last])
	}
}

// Nor do they cost an allocation.
func TestQuietHoursCostNoAllocation(t *testing.T) {
	l := newClockedLine(t)
	r := l.request("n", Policy{MinGap: time.Second})
	for range 2 {
		if got := testing.AllocsPerRun(100, func() {
			if l.limiter.closes(&r) || r.until(l.clock.now().UnixMicro(), l.clock.now().UnixMicro()) > 0 {
				t.Error("closed at noon")
			}
		}); got != 0 {
			t.Errorf("%v allocations under %v", got, r.Scopes[0].Policy)
		}
		r.Scopes[0].Policy.Quiet, r.Scopes[0].Policy.Night.Zone = hoursOf(t, "22:00-08:00"), zoneOf(t, "Europe/Berlin")
	}
}
