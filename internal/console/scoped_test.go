package console

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/names"
	"github.com/pushpace/pushpace/internal/quotas"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	workerroute "github.com/pushpace/pushpace/worker/route"
)

// TestOfOneApp has another app's texts be wherever they can be, and looks at each page,
// where its links lead and what its forms answer, by a token for one app: none tells of
// the other.
func TestOfOneApp(t *testing.T) {
	t.Parallel()
	const foreign = "overthere" // the other app's users, categories, reasons, errors
	known := vocabularyOf(t)
	for _, role := range []config.Role{config.Viewer, config.Operator} {
		t.Run(string(role), func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			r := newRig(t, withLog(&log), slow, func(o *Options) {
				token := testToken("shopkeeper", role, viewerToken)
				token.Apps = []string{"shop"}
				o.Tokens.Set([]config.Token{token, testToken(foreign, config.Operator, operatorToken)})
				o.Apps = names.Apps{"shop": {push.APNs, push.FCM}, foreign: {push.APNs}}
				o.Quotas = func() quotas.Quotas {
					return quotas.Quotas{{Key: "apns/" + foreign, Name: foreign, Apps: []string{foreign}, Quota: config.Quota{Rate: throttle.Rate{Count: 100, Period: time.Minute}}}}
				}
				o.Config.Apps = map[string]config.App{"shop": {Simulated: true}, foreign: {Simulated: true}}
			})
			r.line("ada", 3)
			r.plantForeign(foreign)
			for _, path := range []string{"/console/notifications/waits-0", "/console/notifications/buried", "/console/users/" + foreign + "?app=" + foreign} {
				contains(t, r.as(operatorToken).get(http.StatusOK, path), foreign)
			}
			c := &crawl{rig: r.as(viewerToken), t: t, who: string(role), name: "plain", known: known, log: &log, shown: map[string]bool{}, seen: map[string]bool{}, told: map[string]bool{}, never: foreign}
			c.all()
		})
	}
}

// plantForeign leaves what is the app's, and named so, wherever it can be.
func (r *rig) plantForeign(app string) {
	r.t.Helper()
	ctx, o := r.t.Context(), r.options
	of := func(id string) *push.Notification {
		n := toUser(id, app, app)
		n.App, n.Title = app, app
		return n
	}
	for _, id := range []string{"waits-0", "waits-0-more", "waits-0-most"} {
		r.visitLimits(of(id))
	}
	r.enqueue(of("tried"), of("ended"))
	outcomes := []push.TargetOutcome{{Platform: push.APNs, Kind: "rejected", Reason: "bad_topic", TokenEnd: app, ProviderID: app}}
	_, err := o.Records.Attempt(ctx, "tried", 1, 1, outcomes, app)
	must(r.t, err)
	_, err = o.Records.Settle(ctx, "ended", &push.End{State: push.Delivered, Outcomes: outcomes, Error: app})
	must(r.t, err)
	r.bury(of("buried"), app, time.Now())
	for id, job := range map[string]string{"torn": app, "alien": fmt.Sprintf(`{"v":99,"notification":{"app":%q}}`, app)} {
		must(r.t, o.Records.SetAside(ctx, &push.Letter{ID: id, State: push.Malformed, Reason: app, Error: app, Job: []byte(job), At: time.Now(), Queue: push.Default.Queue()}))
	}
	pauses := pause.NewStore(r.client, "")
	must(r.t, pauses.Begin(ctx, pause.Pause{App: app, Category: app, By: app, Reason: app}))
	_, err = pauses.Share(ctx, pause.Pause{Kind: pause.Provider, App: app, Platform: push.APNs, Reason: "credentials", Error: app})
	must(r.t, err)
	rate := throttle.Policy{Rates: []throttle.Rate{{Count: 3, Period: time.Hour}}}
	for _, level := range []limits.Level{{App: app}, {App: app, User: "ada"}, {App: app, Category: app}, {Quota: "apns/" + app}} {
		must(r.t, o.Overrides.Set(ctx, limits.Override{Level: level, Policy: rate, By: app}))
	}
	_, err = o.Overrides.Unset(ctx, limits.Level{App: app, User: "ada"}, app)
	must(r.t, err)
	snapshot := control.Snapshot{ID: "one", Host: "one", At: time.Now(), Routes: []workerroute.Status{filledWith[workerroute.Status](app)}, Quotas: []workerroute.QuotaStatus{filledWith[workerroute.QuotaStatus](app)}}
	must(r.t, control.LeaveSnapshot(ctx, r.client, "", &snapshot))
	r.client.Persist(ctx, "pushpace:{workers}:one")
}
