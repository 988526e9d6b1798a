package worker

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/internal/base/repeats"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/route"
)

// answers is a limiter that says the same again and again.
type answers struct {
	throttle.Planner
	asked, cancelled int
	answer           func(n int) throttle.Decision
}

func (a *answers) Acquire(context.Context, throttle.Request) (throttle.Decision, error) {
	a.asked++
	return a.answer(a.asked), nil
}

func (a *answers) Cancel(context.Context, throttle.Request) (throttle.Placed, error) {
	a.cancelled++
	return throttle.Placed{}, nil
}

// lasting is a term that goes on.
type lasting struct{}

func (lasting) Sure() bool                { return true }
func (lasting) Lost(context.Context) bool { return false }

// However the throttle answers, it is asked maxAsks times in a visit at most, and the job
// goes back to the queue without a place before its provider.
func TestOneVisitAsksSoOftenAtMost(t *testing.T) {
	t.Parallel()
	const gap = time.Minute
	near := throttle.Decision{Status: throttle.Deferred, Left: 200 * time.Millisecond}
	nearAgain := near
	nearAgain.Slot = time.Unix(1, 0)
	granted := throttle.Decision{Status: throttle.Granted}
	for name, c := range map[string]struct {
		answer func(n int) throttle.Decision
		change bool // the limits change with each answer: what it says is too late
		unsent bool // there is no connection at any instant
		asks   int
		err    error
	}{
		"a slot that is near, and stays so":        {func(int) throttle.Decision { return near }, false, false, maxAsks, nil},
		"a slot that is near, and held":            {func(int) throttle.Decision { return nearAgain }, false, false, maxAsks, nil},
		"let through, and put off when it is late": {func(n int) throttle.Decision { return []throttle.Decision{near, granted, near}[n%3] }, true, false, maxAsks - 1, errTooLate},
		"no connection, and admitted again":        {func(int) throttle.Decision { return granted }, false, true, maxAsks - renewalAsks + 1, errTooLate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				policies := limits.New(throttle.Policy{MinGap: gap}, nil)
				limiter := &answers{}
				limiter.answer = func(n int) throttle.Decision {
					if c.change {
						policies.SetBase(throttle.Policy{MinGap: gap + time.Duration(n)}, nil)
					}
					return c.answer(n)
				}
				o := &Options{Limiter: limiter, Limits: policies, Log: slog.New(slog.DiscardHandler)}
				o.setDefaults()
				a := newAdmission(o, units{}, newSlots(o, nil), tracing{}, new(repeats.Log))
				fcm := route.New(route.Config{Senders: map[string]map[push.Platform]providers.Sender{"shop": {push.FCM: nil}}, Concurrency: 1}).Of("shop")[push.FCM]
				d := &delivery{Notification: &push.Notification{App: "shop", User: "u", ID: "n"}, needs: []*route.Bulkhead{fcm.Bulkhead}, term: lasting{}}
				decision, err := a.admit(t.Context(), d)
				for rounds := 0; c.unsent && err == nil; rounds++ {
					if rounds > maxAsks {
						t.Fatal("it is admitted again and again")
					}
					decision, err = a.admit(t.Context(), d)
				}
				if !errors.Is(err, c.err) || err == nil && decision.Status != throttle.Deferred {
					t.Errorf("%+v, %v", decision, err)
				}
				if limiter.asked != c.asks || limiter.cancelled > c.asks/2 {
					t.Errorf("asked %d times, and %d times to take back; want %d", limiter.asked, limiter.cancelled, c.asks)
				}
				if len(d.inside) > 0 || !route.Room(d.needs, push.Default) {
					t.Error("it keeps a place")
				}
			})
		})
	}
}
