package worker

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/internal/base/logdedup"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/queue"
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
			d := &delivery{Notification: &push.Notification{App: "shop", User: "u", ID: id}, needs: places, term: new(fakeTerm), accepted: time.Unix(int64(i), 0)}
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

// A reply is an error that Redis answers.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

const outOfMemory = reply("OOM command not allowed when used memory > 'maxmemory'.")

// If Redis refuses writes, the reason is Redis and not the provider. A delivery for several routes skips
// only the full routes.
func TestFullRoutesAreSkippedWithReason(t *testing.T) {
	t.Parallel()
	senders := map[push.Platform]providers.Sender{push.APNs: nil, push.FCM: nil}
	routes := route.New(route.Config{Senders: map[string]map[push.Platform]providers.Sender{"shop": senders}, Concurrency: 1}).Of("shop")
	full, free := routes[push.APNs], routes[push.FCM]
	for full.Bulkhead.Fits(push.Default, time.Now()) {
		route.Expect([]*route.Bulkhead{full.Bulkhead}, push.Default, 1)
	}
	for name, c := range map[string]struct {
		refused bool
		routes  []*route.Route
		want    store.WaitReason
		left    int
	}{
		"free":                 {false, []*route.Route{free}, "", 1},
		"full":                 {false, []*route.Route{full}, store.ProviderBusy, 0},
		"one is full":          {false, []*route.Route{full, free}, "", 1},
		"full and not written": {true, []*route.Route{full}, store.RedisRefuses, 0},
	} {
		at := queue.NewServer(queue.Config{Records: new(store.Shard), Budget: queue.NewBudget(8), RedisLog: slog.New(slog.DiscardHandler)})
		if c.refused {
			_ = at.Persist(t.Context(), time.Millisecond, func() error { return outOfMemory })
		}
		d := &delivery{Notification: new(push.Notification), at: at, queue: "q", routes: c.routes, outcomes: make([]outcome, len(c.routes)), arrived: func() {}}
		var got store.WaitReason
		if to, away := new(admission).skipFullRoutes(d).(requeue); away {
			if got = to.Why; to.skipped.isSet() {
				got = to.skipped.storeReturn().Why
			}
		}
		if got != c.want || len(d.needs) != c.left {
			t.Errorf("%s: %q, and %d places are needed; want %q", name, got, len(d.needs), c.want)
		}
	}
}

// A delivery that gets no permit no longer counts as on its way to the bulkhead.
func TestFailedAcquireFreesExpectedRoom(t *testing.T) {
	t.Parallel()
	routes := route.New(route.Config{Senders: map[string]map[push.Platform]providers.Sender{"shop": {push.APNs: nil}}, Concurrency: 1}).Of("shop")
	full := routes[push.APNs]
	needs := []*route.Bulkhead{full.Bulkhead}
	if route.Acquire(t.Context(), needs, push.Default) != nil {
		t.Fatal("there is no place")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2000 { // more than a bulkhead may expect at once
		at := queue.NewServer(queue.Config{Records: new(store.Shard), Budget: queue.NewBudget(8), RedisLog: slog.New(slog.DiscardHandler)})
		d := &delivery{Notification: new(push.Notification), at: at, queue: "q", routes: []*route.Route{full}, outcomes: make([]outcome, 1), arrived: func() {}}
		a := new(admission)
		if a.skipFullRoutes(d) != nil {
			t.Fatal("there is no room")
		}
		if err := a.enter(over, d); !errors.Is(err, errBusy) {
			t.Fatal(err)
		}
		d.arrive()
	}
}
