package worker_test

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/webhook"
)

// Each notification's end is in the stream once, and is posted to the app's webhook with a signature.
func TestOutcomesReachWebhook(t *testing.T) {
	client := oneRedis(t)
	r := newRig(t, client, limits.New(throttle.Policy{}, map[string]throttle.Policy{
		"slow": {Rates: []throttle.Rate{{Count: 1, Period: time.Hour}}},
	}))
	r.options.Hasten(0, 0, 20*time.Millisecond)
	r.records = r.records.WithBounds(store.Bounds{Outcomes: 1000, Apps: map[string]bool{"shop": true}})
	r.options.Outcomes = 1000
	hook := newReceiver(t)
	r.options.OutcomeWebhooks = map[string]webhook.Hook{"shop": {URL: hook.URL, Keys: [][]byte{webhookKey}}}
	r.start()

	r.enqueue(to("delivered"))
	two := to("two", push.Target{Platform: push.APNs, Token: deadToken}, google)
	two.Category = "slow"
	r.enqueue(two)
	r.settled(2)
	r.enqueue(to("dead", push.Target{Platform: push.APNs, Token: deadToken}))
	for _, id := range []string{"cancelled", "expired"} {
		n := to(id)
		n.Category = "slow"
		if id == "expired" {
			n.ExpiresAt = time.Now().Add(time.Minute)
		}
		r.enqueue(n)
	}
	r.enqueue(collapsing("superseded", "slow"))
	r.deferred("cancelled")
	r.deferred("superseded")
	r.enqueue(collapsing("newer", ""))
	must(t, r.cancel(push.Ref{ID: "cancelled"}))
	unknown := to("rejected")
	unknown.App = "unknown"
	r.enqueue(unknown)
	r.settled(8)

	want := map[string]push.State{
		"delivered": push.Delivered, "two": push.Delivered, "dead": push.Undeliverable, "cancelled": push.Cancelled,
		"expired": push.Expired, "superseded": push.Superseded, "newer": push.Delivered,
	}
	wait(t, func() bool { return len(hook.outcomes()) == len(want) })
	told := hook.outcomes()
	for id, state := range want {
		e := told[id]
		if e.State != state || e.App != "shop" || e.User != "u1" || e.Entry == "" || e.Targets == nil || time.Since(e.At).Abs() > time.Minute || !e.At.Equal(e.At.Truncate(time.Millisecond)) {
			t.Errorf("%s: %+v", id, e)
		}
	}
	if e := told["two"]; e.Category != "slow" || e.Attempts != 1 || len(e.Targets) != 2 || e.Targets[0].Kind != "dead_token" ||
		e.Targets[1].Kind != "delivered" || e.Targets[1].Platform != push.FCM {
		t.Errorf("two: %+v", e)
	}
	// unknown apps share one stream
	var events []store.OutcomeEvent
	for _, app := range []string{"shop", ""} {
		for streams := store.NewOutcomes(store.NewRecords(client, "", 0)); ; {
			more, err := streams.Next(t.Context(), app, "mine", time.Hour, 100)
			must(t, err)
			if events = append(events, more...); len(more) == 0 {
				break
			}
		}
	}
	seen := map[string]int{}
	for _, e := range events {
		seen[e.ID]++
		if e.ID == "rejected" && (e.State != push.Rejected || e.Reason == "" || e.App != "unknown") {
			t.Errorf("%+v", e)
		}
	}
	if len(seen) != 8 || len(events) != 8 {
		t.Errorf("the stream has %+v", seen)
	}
}
