package worker_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/watch"
)

// watched looks until there is such an event of the notification.
func (r *rig) watched(w *watch.Watcher, id string, state push.State) watch.Event {
	r.t.Helper()
	var found watch.Event
	wait(r.t, func() bool {
		seen, err := w.Look(r.t.Context())
		must(r.t, err)
		for _, e := range seen.Events {
			if e.ID == id && e.State == state {
				found = e
			}
		}
		return found.ID == id
	})
	return found
}

// Who watches sees what becomes of notifications, whichever worker has them, and none of
// their tokens and texts.
func TestWhoWatchesSees(t *testing.T) {
	overRedis(t, func(t *testing.T, client redis.UniversalClient) {
		hourly := throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: time.Hour}}}
		r := newRig(t, client, limits.New(throttle.Policy{}, map[string]throttle.Policy{"news": hourly}))
		log := r.logs()
		first := r.start()
		r.start()
		w := watch.NewWatcher(client, "")
		defer w.Close()
		must(t, r.control().Pause(t.Context(), pause.Pause{Category: "held"}))
		wait(t, func() bool { return strings.Count(log.text(), "paused by an operator") == 2 })
		started := time.Now()
		for i := 0; ; i++ { // until the workers know that somebody watches
			seen, err := w.Look(t.Context())
			must(t, err)
			if len(seen.Events) > 0 {
				break
			}
			r.enqueue(to(fmt.Sprint("early-", i)))
			time.Sleep(20 * time.Millisecond)
		}
		send := func(id, category string, p push.Priority, targets ...push.Target) {
			n := to(id, targets...)
			n.Category, n.Priority, n.Title = category, p, "a secret"
			r.enqueue(n)
		}
		send("both", "", push.Critical, apple, google)
		send("sent", "news", push.Default)
		r.watched(w, "sent", push.Delivered) // before another one may take its place
		send("waits", "news", push.Bulk)
		send("held", "held", push.Default)
		send("dead", "", push.Default, push.Target{Platform: push.APNs, Token: deadToken})
		both := r.watched(w, "both", push.Delivered)
		if both.App != "shop" || both.User != "u1" || both.Category != "" || both.Priority != push.Critical ||
			fmt.Sprint(both.Platforms) != "[apns fcm]" || both.For != "" || !both.Until.IsZero() || both.At.Before(started.Add(-time.Minute)) {
			t.Errorf("%+v", both)
		}
		waits := r.watched(w, "waits", push.Waiting)
		if left := time.Until(waits.Until); waits.For != string(control.ForLimit) || waits.Reason != "news 1/1h" || left < 50*time.Minute || left > time.Hour {
			t.Errorf("put off: %+v", waits)
		}
		if held := r.watched(w, "held", push.Waiting); held.For != string(control.ForPause) || !held.Until.IsZero() {
			t.Errorf("paused: %+v", held)
		}
		r.watched(w, "dead", push.Undeliverable)
		first() // the other one tells too
		for _, id := range []string{"older", "newer"} {
			r.enqueue(collapsing(id, "news"))
			r.watched(w, id, push.Waiting)
		}
		if older := r.watched(w, "older", push.Superseded); older.App != "shop" || older.User != "u1" || older.Category != "news" {
			t.Errorf("replaced: %+v", older)
		}
		seen, err := w.Look(t.Context())
		must(t, err)
		text, _ := json.Marshal(seen)
		for _, secret := range []string{appleToken, googleToken, deadToken, "a secret"} {
			if strings.Contains(string(text), secret) {
				t.Errorf("%q is told", secret)
			}
		}
	})
}

// Workers say nothing while nobody watches, and nothing more when nobody does any more.
func TestNobodyWatches(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, redistest.Start(t).Options())
	r := newRig(t, client, unlimited)
	log := r.logs()
	r.start()
	r.start()
	heard := client.PSubscribe(t.Context(), "asynq:watch:*")
	defer heard.Close()
	words := heard.Channel()
	n := 0
	work := func() {
		for range 50 {
			r.enqueue(to(fmt.Sprint("n", n)))
			n++
		}
		r.settled(n)
		before := strings.Count(log.text(), "paused by an operator")
		must(t, r.control().Pause(t.Context(), pause.Pause{App: fmt.Sprint("other-", n)}))
		wait(t, func() bool { return strings.Count(log.text(), "paused by an operator") == before+2 }) // both have looked
	}
	silent := func(until string) {
		t.Helper()
		must(t, client.Publish(t.Context(), until, "end").Err())
		for word := range words {
			if word.Payload == "end" {
				return
			}
			if word.Payload != "" {
				t.Errorf("said: %s", word.Payload)
			}
		}
	}
	work()
	silent("asynq:watch:test")

	w := watch.NewWatcher(client, "")
	_, err := w.Look(t.Context())
	must(t, err)
	work()
	r.enqueue(to("seen"))
	r.watched(w, "seen", push.Delivered)
	w.Close()
	const key = "pushpace:{pauses}:watched"
	channel := client.Get(t.Context(), key).Val()
	must(t, client.Del(t.Context(), key).Err()) // which expires, as nobody renews it
	must(t, client.Publish(t.Context(), channel, "over").Err())
	for word := range words {
		if word.Payload == "over" {
			break
		}
	}
	n++ // the one that was seen
	work()
	work()
	silent(channel)
}
