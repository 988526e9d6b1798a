package operate

import (
	"fmt"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

var toFCM = []push.Target{{Platform: push.FCM, Token: "t"}}

// waitingFor adds n waiting notifications with IDs that begin with prefix.
func waitingFor(t *testing.T, client redis.UniversalClient, prefix string, n int, one push.Notification) {
	t.Helper()
	one.User, one.Title = "ada", "t"
	var all []*push.Notification
	for i := range n {
		next := one
		next.ID = fmt.Sprintf("%s-%d", prefix, i)
		all = append(all, &next)
	}
	for _, r := range push.NewProducer(client, "", 0).EnqueueAll(t.Context(), all) {
		must(t, r.Err)
	}
}

// The overview, the list of waiting notifications and the pauses report the same exact numbers,
// also for a route that has just opened.
func TestCountsAgree(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		apple, google := []push.Target{{Platform: push.APNs, Token: "00"}}, toFCM
		waitingFor(t, client, "kept", 310, push.Notification{App: "shop", Targets: google})
		waitingFor(t, client, "due", 20, push.Notification{App: "shop", Targets: apple})
		waitingFor(t, client, "half", 7, push.Notification{App: "shop", Targets: append(apple[:1:1], google...)})
		waitingFor(t, client, "paused", 11, push.Notification{App: "shop", Category: "news", Targets: apple})
		waitingFor(t, client, "opened", 5, push.Notification{App: "mail", Targets: google})
		waitingFor(t, client, "later", 3, push.Notification{App: "shop", Targets: google, NotBefore: time.Now().Add(time.Hour)})
		snapshot := &control.Snapshot{ID: "w1", Pulls: true, Routes: []route.Status{
			{App: "shop", Platform: push.FCM, State: route.Closed, Queued: 2, Trouble: route.Trouble{Reason: "unavailable", Since: time.Now(), Failures: 5}},
			{App: "shop", Platform: push.APNs, State: route.Open},
			{App: "mail", Platform: push.FCM, State: route.Closed}, // its trouble is not published yet
		}}
		must(t, control.PublishSnapshot(t.Context(), client, "", snapshot))
		must(t, pause.NewStore(client, "").Begin(t.Context(), &pause.Pause{Category: "news", By: "ada"}))
		records := store.NewRecords(client, "", 0)
		c := inspect.New(client, records, nil, limits.New(throttle.Policy{}, nil))
		o := New(Options{Inspect: c, Records: records, Queue: client, Log: slog.New(slog.DiscardHandler)}).As(root, "")
		want := map[inspect.Cause]int64{inspect.ForProvider: 315, inspect.ForWorker: 27, inspect.ForPause: 11, inspect.ForSchedule: 3}

		seen := complete(t, o.Overview)
		got := map[inspect.Cause]int64{}
		for _, s := range seen.Waits {
			if got[s.For] = s.Count; s.Sampled {
				t.Errorf("%+v", s)
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("the overview has %v", got)
		}
		got = map[inspect.Cause]int64{}
		for cursor := ""; ; {
			list, err := o.Waiting(t.Context(), inspect.Selection{}, cursor)
			must(t, err)
			for _, q := range list.Waiting {
				got[q.For]++
			}
			if cursor = list.Next; cursor == "" {
				break
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("the list has %v", got)
		}
		pauses, err := o.Pauses(t.Context())
		must(t, err)
		for _, list := range [][]pause.Pause{pauses, seen.Pauses} {
			if len(list) != 2 || list[0].Waiting != 11 || list[1].Kind != pause.Trouble || list[1].Waiting != 310 {
				t.Errorf("%+v", list)
			}
		}
		for id, want := range map[string]inspect.Cause{"kept-1": inspect.ForProvider, "opened-1": inspect.ForProvider, "due-1": inspect.ForWorker, "paused-1": inspect.ForPause} {
			if s, err := c.Status(t.Context(), push.Ref{ID: id}); err != nil || s.Waits.For != want {
				t.Errorf("%s: %+v, %v", id, s, err)
			}
		}
	})
}
