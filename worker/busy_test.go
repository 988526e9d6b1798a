package worker

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/route"
)

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
