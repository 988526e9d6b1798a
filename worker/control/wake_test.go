package control

import (
	"testing"
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
