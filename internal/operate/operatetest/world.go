// Package operatetest builds common fixtures for the tests of operate, the API and the console:
// the options of a service (Options), and a world of two apps. A token for Own must never see
// anything of Other.
package operatetest

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/auditlog"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

// The two apps of a world. Everything that belongs to Other alone has "secret" in its name.
const (
	Own   = "shop"
	Other = "secret-app"
)

// Root may do everything.
var Root = operate.Principal{Name: "root", Role: config.Operator}

// Both is an app that sends to APNs and FCM.
var Both = operate.App{Platforms: []push.Platform{push.APNs, push.FCM}}

// Options returns the options of a service on this Redis, without apps and quotas. It uses the
// client's time-outs.
func Options(t testing.TB, client redis.UniversalClient, policies *limits.Policies) operate.Options {
	t.Helper()
	patience := redistest.Patience
	if one, ok := client.(*redis.Client); ok {
		patience = one.Options().ReadTimeout
	}
	shared, stop := pipeline.Share(client, pipeline.Options{Timeout: patience})
	t.Cleanup(stop)
	limiter, err := throttle.New(shared, throttle.Options{Timeout: patience})
	must(t, err)
	t.Cleanup(func() { _ = limiter.Close() })
	records := store.NewRecords(shared, "", 0)
	return operate.Options{
		Producer: push.NewProducer(shared, "", 0), Records: records, Control: control.New(shared, records, limiter, policies), Inspect: inspect.New(shared, records, limiter, policies), Queue: client,
		Limits: policies, Overrides: limits.NewOverrides(shared, "", 0), Meter: meter.NewRedis(shared, ""),
		Preview: &operate.Previewer{Limits: policies, Lines: limiter, Apps: []string{Own}}, Log: slog.New(slog.DiscardHandler),
	}
}

// Divide divides the Redis of the options into n shards.
func Divide(o *operate.Options, n int) {
	o.Producer, o.Records = push.NewProducer(o.Queue, "", 0).WithShards(n), o.Records.WithShards(n)
	o.Control = control.New(o.Queue, o.Records, o.Preview.Lines.(throttle.Planner), o.Limits)
	o.Inspect = inspect.New(o.Queue, o.Records, o.Preview.Lines.(throttle.Planner), o.Limits)
}

// TwoApps configures both apps. Each has its own quota, and they share a third quota.
func TwoApps(o *operate.Options) {
	o.Apps = operate.Apps{Own: Both, Other: Both}
	o.Preview.Apps = []string{Other, Own}
	quota := config.Quota{Rate: throttle.Rate{Count: 600, Period: time.Minute}, Algorithm: meter.TokenBucket}
	o.Quotas = func() (operate.Quotas, error) {
		return operate.Quotas{
			{Key: "apns/" + Own, Apps: []string{Own}, Quota: quota}, {Key: "apns/" + Other, Apps: []string{Other}, Quota: quota},
			{Key: "quota/both", Name: "both", Apps: []string{Other, Own}, Quota: quota},
		}, nil
	}
}

// Each app has a waiting notification for each name in Waiting, and a dead letter for each name in
// Letters. Their IDs are the app's name, a hyphen and that name. The categories in Limited have an
// override, and the categories in Paused have a pause.
var (
	Waiting = []string{"waits", "cancelled", "with-others", "each"}
	Letters = []string{"letter", "requeued", "requeues", "purged", "purges"}
	Limited = []string{"unset", "undone", "looked at"}
	Paused  = []string{"resumed", "ending"}
)

var hourly = throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: time.Hour}}}

// FillOwn adds items of all kinds to the shop, and items of all apps.
func FillOwn(t testing.TB, o operate.Options) {
	t.Helper()
	fill(t, o, Own)
	set(t, o, "own", limits.Level{Quota: "apns/" + Own}, limits.Level{Quota: "quota/both"})
	must(t, o.Control.Pause(t.Context(), &pause.Pause{Category: "news", By: "ada"}))
	work(t, o, ownRoute)
}

// FillOther adds items of all kinds to the other app, and items that an API token for the shop must
// not see.
func FillOther(t testing.TB, o operate.Options) {
	t.Helper()
	fill(t, o, Other)
	set(t, o, "secret", limits.Level{User: "secret-user"}, limits.Level{Category: "secret-of-all"}, limits.Level{Quota: "apns/" + Other})
	for _, e := range []auditlog.Entry{{Level: limits.Level{User: "secret-user"}}, {Level: limits.Level{Quota: "apns/" + Other}}, {Apps: []string{Other, Own}}, {ID: "secret-malformed"}} {
		e.By, e.Action, e.Count = "secret-ada", auditlog.Purge, 1
		must(t, auditlog.New(o.Queue, "").Add(t.Context(), e))
	}
	work(t, o, ownRoute, route.Status{App: Other, Platform: push.FCM, State: route.Closed, Trouble: route.Trouble{Reason: "unavailable", Error: "secret", Since: time.Now()}})
	// an unreadable job belongs to no app
	must(t, storetest.First(t, o.Records).SetAside(t.Context(), &store.Letter{ID: "secret-malformed", State: store.Malformed, Reason: "not_json", At: time.Now(), Queue: push.Default.Queue(), Job: []byte("secret")}))
}

// fill adds items of all kinds to the app. Its operator and user are named after it.
func fill(t testing.TB, o operate.Options, app string) {
	t.Helper()
	ctx, user, by := t.Context(), app+"-user", app+"-operator"
	one := push.Notification{App: app, User: user, Category: app, Title: app, Targets: []push.Target{{Platform: push.FCM, Token: "t"}}}
	for _, what := range Waiting {
		n := one
		n.ID, n.NotBefore = app+"-"+what, time.Now().Add(time.Hour)
		_, err := o.Producer.Enqueue(ctx, &n)
		must(t, err)
	}
	for _, what := range Letters {
		n := one
		n.ID = app + "-" + what
		job, err := push.Encode(&push.Job{Notification: &n, AcceptedAt: time.Now()})
		must(t, err)
		at, err := o.Records.Of(ctx, app, user)
		must(t, err)
		must(t, at.SetAside(ctx, &store.Letter{ID: n.ID, State: store.Malformed, Reason: app, At: time.Now(), Queue: push.Default.Queue(), Job: job}))
	}
	set(t, o, by, limits.Level{App: app}, limits.Level{App: app, User: user}, limits.Level{App: app, Category: app})
	for _, category := range Limited {
		set(t, o, by, limits.Level{App: app, Category: category})
	}
	must(t, o.Control.Pause(ctx, &pause.Pause{App: app, By: by, Reason: app}))
	for _, category := range Paused {
		must(t, o.Control.Pause(ctx, &pause.Pause{App: app, Category: category, By: by}))
	}
	must(t, auditlog.New(o.Queue, "").Add(ctx, auditlog.Entry{By: by, Action: auditlog.Pause, Level: limits.Level{App: app}, Count: 1, Reason: app}))
	limiter := o.Preview.Lines.(throttle.Limiter)
	for _, id := range []string{"-sent", "-booked"} {
		_, err := limiter.Acquire(ctx, throttle.Request{App: app, User: user, ID: app + id, Scopes: o.Limits.Scopes(app, user, "")})
		must(t, err)
	}
}

func set(t testing.TB, o operate.Options, by string, levels ...limits.Level) {
	t.Helper()
	for _, level := range levels {
		must(t, o.Overrides.Set(t.Context(), limits.Override{Level: level, Policy: hourly, By: by}))
	}
}

var ownRoute = route.Status{App: Own, Platform: push.APNs, State: route.Open}

// work publishes a worker's snapshot with these routes. With several routes, it includes sums
// over all apps.
func work(t testing.TB, o operate.Options, routes ...route.Status) {
	t.Helper()
	w := &control.Snapshot{ID: "w1", Routes: routes}
	if len(routes) > 1 {
		w.Minutes, w.Quotas = []control.Minute{{At: time.Now(), Sent: 777_777}}, []route.QuotaStatus{{Key: "apns/" + Other}}
	}
	err := control.PublishSnapshot(t.Context(), o.Queue, "", w)
	must(t, err)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Kept returns all keys of Redis with their values, except sessions, and workers, which expire.
func Kept(t *testing.T, client redis.UniversalClient) map[string]string {
	t.Helper()
	all := map[string]string{}
	keys, err := client.Keys(t.Context(), "*").Result()
	must(t, err)
	for _, key := range keys {
		if !strings.Contains(key, "{workers}") && !strings.Contains(key, ":session:") {
			all[key], err = client.Dump(t.Context(), key).Result()
			must(t, err)
		}
	}
	return all
}
