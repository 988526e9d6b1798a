package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

func TestProvidersOfAllWorkers(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
	trouble := func(after time.Duration, text string) route.Trouble {
		return route.Trouble{Reason: "unavailable", Error: text, Since: at.Add(after), Failures: 3}
	}
	snapshot := func(routes ...route.Status) control.Snapshot { return control.Snapshot{Routes: routes} }
	got := sumProviders([]control.Snapshot{
		snapshot(
			route.Status{App: "shop", Platform: push.FCM, InFlight: 2, Queued: 1, State: route.Closed, Trouble: trouble(time.Minute, "later"), Share: new(3)},
			route.Status{App: "shop", Platform: push.APNs, InFlight: 5, State: route.Open, CredentialEnds: at.Add(48 * time.Hour), Latency: route.Latency{P50: 3, P99: 9}, Answers: map[providers.Reason]int64{providers.OK: 4}},
		),
		snapshot(
			route.Status{App: "shop", Platform: push.FCM, InFlight: 1, State: route.Closed, Trouble: trouble(0, "first")},
			route.Status{App: "shop", Platform: push.APNs, State: route.Closed, Pause: "InvalidProviderToken", Until: at.Add(time.Hour), CredentialEnds: at.Add(24 * time.Hour), Latency: route.Latency{P50: 5, P99: 8}, Answers: map[providers.Reason]int64{providers.OK: 1, "BadTopic": 2}},
		),
		snapshot(route.Status{App: "shop", Platform: push.FCM, State: route.Trying, Share: new(0)}), // it probes the provider
	})
	want := []Provider{
		{App: "shop", Platform: push.APNs, InFlight: 5, Workers: 2, Troubled: 1, Pause: "InvalidProviderToken", Until: at.Add(time.Hour), CredentialEnds: at.Add(24 * time.Hour), Latency: route.Latency{P50: 3, P99: 9}, Answers: map[providers.Reason]int64{providers.OK: 5, "BadTopic": 2}},
		{App: "shop", Platform: push.FCM, InFlight: 3, Queued: 1, Workers: 3, Troubled: 2, Shareless: 1, Trouble: trouble(0, "first")},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}

// The workers' minutes and quotas are summed.
func TestMinutesAndQuotasAreSummed(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
	minute := func(n int, sent int64, state push.State, ended int64) control.Minute {
		return control.Minute{At: at.Add(time.Duration(n) * time.Minute), Sent: sent, Deferred: 1, Ended: map[push.State]int64{state: ended}}
	}
	workers := []control.Snapshot{
		{
			Minutes: []control.Minute{minute(1, 5, push.Delivered, 4), minute(3, 1, push.Delivered, 1)}, LateP99: time.Second,
			Quotas: []route.QuotaStatus{{Key: "fcm/p", Rate: "10/1s", Used: .25, Waiting: 2, Until: at}, {Key: "category/shop/news", Rate: "1/1s"}},
		},
		{
			Minutes: []control.Minute{minute(0, 2, push.Expired, 1), minute(1, 3, push.Expired, 2)}, LateP99: time.Minute,
			Quotas: []route.QuotaStatus{{Key: "fcm/p", Rate: "10/1s", Used: .5, Waiting: 1, Until: at.Add(time.Second), Error: "away"}},
		},
	}
	both := minute(1, 8, push.Delivered, 4)
	both.Deferred, both.Ended[push.Expired] = 2, 2
	ended := minute(0, 4, push.Expired, 2) // includes a worker that has ended
	ended.Deferred, ended.Waiting = 2, new(int64(7))
	added := minute(0, 2, push.Expired, 1)
	added.Waiting = ended.Waiting
	if got, want := sumMinutes([]control.Minute{added}, workers), []control.Minute{ended, both, minute(3, 1, push.Delivered, 1)}; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got := maxLateness(workers); got != time.Minute {
		t.Error(got)
	}
	want := []route.QuotaStatus{{Key: "category/shop/news", Rate: "1/1s"}, {Key: "fcm/p", Rate: "10/1s", Used: .75, Waiting: 3, Until: at.Add(time.Second), Error: "away"}}
	if got := sumQuotas(workers); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// complete reads an overview until it has all of its parts, except for the failing ones: a slow
// machine reads some parts too late.
func complete(t *testing.T, read func(context.Context) (*Overview, error), failing ...Part) (o *Overview) {
	t.Helper()
	whole := eventually.Within(eventually.Patience, func() bool {
		var err error
		o, err = read(t.Context())
		must(t, err)
		return len(o.Unread) <= len(failing)
	})
	if !whole {
		t.Fatalf("%+v are not read", o.Unread)
	}
	return o
}

// The overview has exact counts, and the reasons of a bounded number of dead letters.
func TestOverviewHasExactCounts(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		records := store.NewRecords(client, "", 0)
		waitingFor(t, client, "due", 2*letters, push.Notification{App: "shop", Targets: toFCM})
		waitingFor(t, client, "later", letters, push.Notification{App: "shop", Targets: toFCM, NotBefore: time.Now().Add(time.Hour)})
		for i := range 3 * letters {
			letter := &store.Letter{ID: fmt.Sprint("gone-", i), State: store.Malformed, Reason: "not_json", At: time.Now(), Queue: push.Default.Queue()}
			must(t, storetest.First(t, records).SetAside(t.Context(), letter))
		}
		s := New(Options{Inspect: inspect.New(client, records, nil, limits.New(throttle.Policy{}, nil)), Records: records, Queue: client})
		o := complete(t, s.readOverview)
		sampled := !strings.HasSuffix(t.Name(), "/embedded") // the embedded Redis returns all letters at once
		if o.Waiting != 3*letters || o.Letters.Count != 3*letters || o.Letters.LookedAt < letters || sampled != (o.Letters.LookedAt < 3*letters) || o.Letters.Reasons["not_json"] != o.Letters.LookedAt {
			t.Errorf("%d wait, letters %+v", o.Waiting, o.Letters)
		}
		if len(o.Workers) != 0 || len(o.Waits) != 2 || o.Waits[0].For != inspect.ForWorker || o.Waits[0].Count != 2*letters || o.Waits[1].Count != letters || o.Waits[1].Oldest.IsZero() {
			t.Errorf("%+v", o.Waits)
		}
		if ago := time.Since(o.OldestDue); ago < 0 || ago > time.Minute || len(o.Unread) > 0 {
			t.Errorf("the oldest is due since %s; not read: %+v", o.OldestDue, o.Unread)
		}
		if len(o.Redis) == 1 && (o.Redis[0].Shards != nil || o.Redis[0].Waiting != nil || o.Redis[0].Replicas != nil) {
			t.Errorf("one server has %+v", o.Redis[0])
		}
		if len(o.Redis) == 0 || o.Redis[0].Error != "" || o.Redis[0].AheadBy.Abs() > time.Minute || len(o.LimitsRedis) != 0 {
			t.Errorf("%+v", o.Redis)
		}
	})
}

// If a part fails or does not answer, the overview names it and has the other parts.
func TestOverviewNamesFailedPart(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]error{"fails": errors.New("ERR broken"), "does not answer": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := redistest.Shared(t).Options()
			options.DB = redistest.Database(t)
			client := redistest.Connect(t, options)
			records := store.NewRecords(client, "", 0)
			waitingFor(t, client, "one", 1, push.Notification{App: "shop", Targets: toFCM})
			must(t, storetest.First(t, records).SetAside(t.Context(), &store.Letter{ID: "gone", State: store.Malformed, Reason: "not_json", At: time.Now(), Queue: push.Default.Queue()}))
			redistest.Hook(client, redistest.Around(func(ctx context.Context, cmds []redis.Cmder, next func() error) error {
				if cmds[0].Name() != "hscan" {
					return next()
				}
				if broken == nil {
					<-ctx.Done()
				}
				return redistest.Fail(cmds, cmp.Or(broken, ctx.Err()))
			}))
			s := New(Options{Inspect: inspect.New(client, records, nil, limits.New(throttle.Policy{}, nil)), Records: records, Queue: client, Within: eventually.Patience, Log: slog.New(slog.DiscardHandler)})
			o := complete(t, s.As(root, "").Overview, PartLetters)
			if o.Waiting != 1 || len(o.Waits) != 1 || len(o.Queues) != 3 || len(o.Redis) != 1 || o.Workers == nil || o.Pauses == nil || o.Letters.Reasons == nil {
				t.Errorf("%+v", o)
			}
			if len(o.Unread) != 1 || o.Unread[0].Part != PartLetters || o.NotRead(PartLetters) == "" || o.NotRead(PartWaits) != "" {
				t.Errorf("%+v", o.Unread)
			}
			if its := of("shop").overviewOf(o); len(its.Unread) != 1 || its.Unread[0].Problem == o.Unread[0].Problem {
				t.Errorf("of some apps %+v", its.Unread)
			}
		})
	}
}

// A principal of some apps gets nothing of another app, and estimates for its own apps from the
// sample.
func TestOverviewHidesOtherApps(t *testing.T) {
	t.Parallel()
	const sample = 200
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		records := store.NewRecords(client, "", 0)
		later := time.Now().Add(time.Hour)
		waitingFor(t, client, "due", 2*sample, push.Notification{App: "secret-app", Targets: toFCM})
		waitingFor(t, client, "its", sample, push.Notification{App: "shop", Targets: toFCM, NotBefore: later})
		waitingFor(t, client, "other", 1, push.Notification{App: "secret-app", Targets: toFCM, NotBefore: later})
		for i, app := range []string{"shop", "secret-app", "secret-app"} {
			n := &push.Notification{ID: fmt.Sprintf("dead-%d", i), App: app, User: "ada", Title: "t", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}}
			job, err := push.Encode(&push.Job{Notification: n, AcceptedAt: time.Now()})
			must(t, err)
			must(t, storetest.First(t, records).SetAside(t.Context(), &store.Letter{ID: n.ID, State: store.Malformed, Reason: "reason-of-" + app, At: time.Now(), Queue: push.Default.Queue(), Job: job}))
		}
		snapshot := &control.Snapshot{ID: "w1", Host: "h", Pulls: true, Routes: []route.Status{
			{App: "shop", Platform: push.FCM, InFlight: 2}, {App: "secret-app", Platform: push.APNs, InFlight: 9},
		}}
		must(t, control.PublishSnapshot(t.Context(), client, "", snapshot))
		store := pause.NewStore(client, "")
		for _, p := range []pause.Pause{{App: "shop", By: "ada"}, {App: "secret-app", By: "eve"}, {Category: "news", By: "ada"}} {
			must(t, store.Begin(t.Context(), &p))
		}
		s := New(Options{Inspect: inspect.New(client, records, nil, limits.New(throttle.Policy{}, nil)).Sampling(sample), Records: records, Queue: client})
		all := complete(t, s.readOverview)
		if of().overviewOf(all) != all {
			t.Error("a bearer of all apps does not see all of it")
		}
		its := of("shop").overviewOf(all)
		text, err := json.Marshal(its)
		if err != nil || strings.Contains(string(text), "secret-app") {
			t.Errorf("%v: %s", err, text)
		}
		// by the sample, about all scheduled jobs are the shop's; the due job is another app's
		if !its.Sampled || len(its.Waits) != 1 || its.Waits[0].For != inspect.ForSchedule || !its.Waits[0].Sampled && its.Waiting != sample || its.Waiting < sample-10 || its.Waiting > sample+1 {
			t.Errorf("%d wait: %+v", its.Waiting, its.Waits)
		}
		if l := its.Letters; l.Count != 1 || l.LookedAt != 1 || l.Reasons["reason-of-shop"] != 1 || l.Sampled {
			t.Errorf("letters %+v", l)
		}
		if len(its.Workers) != 1 || len(its.Workers[0].Routes) != 1 || len(its.Providers) != 1 || its.Providers[0].InFlight != 2 {
			t.Errorf("%+v", its.Workers)
		}
		if len(its.Pauses) != 2 || !slices.Equal(its.Apps, []string{"shop"}) || len(its.Queues) != 0 || len(its.Redis) != 0 {
			t.Errorf("%+v", its)
		}
	})
}

// If only some dead letters were read, their number is an estimate.
func TestLettersOfSomeAppsAreEstimated(t *testing.T) {
	t.Parallel()
	if got := of("shop").lettersOf(&Letters{Count: 7}); got.Count != 0 || !got.Sampled {
		t.Errorf("gone since they were counted: %+v", got)
	}
	all := Letters{Count: 1000, LookedAt: 200, by: map[string]map[string]int{"shop": {"a": 20, "b": 5}, "mail": {"a": 170}, "": {"c": 5}}}
	for name, c := range map[string]struct {
		apps  []string
		count int64
	}{"one": {[]string{"shop"}, 125}, "none": {[]string{"other"}, 0}, "two": {[]string{"shop", "mail"}, 975}} {
		if got := of(c.apps...).lettersOf(&all); got.Count != c.count || !got.Sampled || got.Reasons["c"] != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

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
