package control

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// A delayed placing of a line uses the limits in force then.
func TestDelayedPlacingUsesCurrentLimits(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	limiter, err := throttle.New(client, throttle.Options{})
	must(t, err)
	defer limiter.Close()
	gap := func(g time.Duration) throttle.Policy { return throttle.Policy{MinGap: g} }
	policies := limits.New(gap(time.Hour), nil)
	c := New(client, store.NewRecords(client, "", 0), limiter, policies)
	ask := func(id string) throttle.Request {
		return throttle.Request{App: "shop", User: "ada", ID: id, Scopes: policies.Scopes("shop", "ada", ""), Horizon: 24 * time.Hour}
	}
	_, err = push.NewProducer(client, "", 0).Enqueue(t.Context(), &push.Notification{ID: "two", App: "shop", User: "ada", Title: "t", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}})
	must(t, err)
	for _, id := range []string{"one", "two"} {
		_, err := limiter.Acquire(t.Context(), ask(id))
		must(t, err)
	}
	for began := time.Now(); ; began = time.Now() {
		policies.SetBase(gap(time.Hour), nil)
		c.Follow(t.Context(), ask("two"), throttle.FollowUp{After: time.Second})
		if policies.SetBase(gap(time.Minute), nil); time.Since(began) < time.Second {
			break
		}
		c.Rest(t.Context()) // the machine stalled
	}
	c.Rest(t.Context())
	timeline, err := limiter.Timeline(t.Context(), ask(""))
	must(t, err)
	if len(timeline.Bookings) != 1 || timeline.Bookings[0].Slot.Sub(timeline.Now) > 2*time.Minute {
		t.Errorf("%+v at %s", timeline.Bookings, timeline.Now)
	}
}

// Repeated calls for a key are merged into one call, with the bookings of all of them.
func TestDelayedCallsAreMerged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, key := new(delayed), lineKey{app: "shop", user: "ada"}
		began, placed, woken := time.Now(), 0, [][]throttle.Booking(nil)
		slot := func(id string, at time.Duration) throttle.Booking {
			return throttle.Booking{ID: id, Slot: began.Add(at)}
		}
		ctx, cancel := context.WithCancel(t.Context())
		for _, some := range [][]throttle.Booking{{slot("b", 2), slot("a", 1)}, {slot("b", 2), slot("c", 3)}} {
			l.after(ctx, time.Second, key, func(context.Context) { placed++ })
			l.again(ctx, lineKey{app: "shop", user: "ada", try: 1}, some, func(_ context.Context, all []throttle.Booking) { woken = append(woken, all) })
		}
		cancel() // the callers have gone
		l.rest(t.Context())
		if took := time.Since(began); took != time.Second || placed != 1 {
			t.Errorf("placed %d times after %s", placed, took)
		}
		if len(woken) != 1 || len(woken[0]) != 3 || woken[0][0].ID != "a" || woken[0][2].ID != "c" {
			t.Errorf("woken are %v", woken)
		}
		l.after(t.Context(), time.Second, key, func(context.Context) { placed++ })
		l.rest(t.Context())
		if placed != 2 {
			t.Errorf("placed %d times, want 2", placed)
		}
	})
}
