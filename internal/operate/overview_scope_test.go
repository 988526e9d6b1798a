package operate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

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
