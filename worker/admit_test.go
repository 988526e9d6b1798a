package worker

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/internal/base/logdedup"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/route"
)

// A notebook is a limiter that records its requests, and grants each one that does not set SlotOnly.
type notebook struct {
	throttle.Planner
	asked []throttle.Request
}

func (n *notebook) Acquire(ctx context.Context, r throttle.Request) (throttle.Decision, error) {
	all, err := n.AcquireAll(ctx, []throttle.Request{r})
	return all[0], err
}

func (n *notebook) AcquireAll(_ context.Context, all []throttle.Request) ([]throttle.Decision, error) {
	n.asked = append(n.asked, all...)
	decisions := make([]throttle.Decision, len(all))
	for i, r := range all {
		decisions[i] = throttle.Decision{Status: throttle.Granted}
		if r.SlotOnly {
			decisions[i] = throttle.Decision{Status: throttle.Deferred, Left: time.Second}
		}
	}
	return decisions, nil
}

// lasting is a term that never ends.
type lasting struct{}

func (lasting) Valid() bool               { return true }
func (lasting) Lost(context.Context) bool { return false }

// A delivery takes its permit before it asks the limiter. Its call also books slots for the later
// deliveries that get no permit.
func TestAdmitTakesPermitBeforeLimiterCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter := &notebook{}
		o := &Options{Limiter: limiter, Limits: limits.New(throttle.Policy{MinGap: time.Minute}, nil), Log: slog.New(slog.DiscardHandler)}
		o.setDefaults()
		a := newAdmission(o, units{}, newSlots(o, nil), tracing{}, new(logdedup.Log))
		fcm := route.New(route.Config{Senders: map[string]map[push.Platform]providers.Sender{"shop": {push.FCM: nil}}, Concurrency: 2}).Of("shop")[push.FCM]
		places := []*route.Bulkhead{fcm.Bulkhead}
		var all []*delivery
		for i, id := range []string{"first", "second", "third"} {
			d := &delivery{Notification: &push.Notification{App: "shop", User: "u", ID: id}, needs: places, term: lasting{}, accepted: time.Unix(int64(i), 0)}
			a.lines.enter(d)
			all = append(all, d)
		}
		for range 2 {
			if !route.TryAcquire(places, push.Default) {
				t.Fatal("no permit")
			}
		}
		decisions := make([]throttle.Decision, len(all))
		for i, d := range all {
			go func() { decisions[i], _ = a.admit(t.Context(), d) }()
		}
		synctest.Wait()
		if len(limiter.asked) > 0 {
			t.Errorf("asked for %v without a permit", limiter.asked)
		}
		route.Release(places)
		synctest.Wait()
		var asked []string
		for _, r := range limiter.asked {
			asked = append(asked, r.ID)
			if r.SlotOnly != (r.ID != "first") {
				t.Errorf("%s: only booked: %v", r.ID, r.SlotOnly)
			}
		}
		if len(asked) != 3 || decisions[0].Status != throttle.Granted || decisions[1].Status != throttle.Deferred || decisions[2].Status != throttle.Deferred {
			t.Errorf("asked for %v: %+v", asked, decisions)
		}
		if len(all[0].permits) != 1 || all[1].permits != nil || all[2].permits != nil {
			t.Error("a deferred delivery keeps a permit, or a granted one has none")
		}
	})
}
