package api

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/ledger/ledgertest"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/quotas"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/trail"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	way "github.com/pushpace/pushpace/worker/route"
)

// The tokens that are for the shop alone.
const (
	shopProducer = "shop-producer"
	shopViewer   = "shop-viewer"
	shopOperator = "shop-operator"
)

// A scopedRig has things of two apps, the shop and one of which those with a token for the
// shop are to learn nothing: whatever is its own has a name with "secret" in it.
func scopedRig(t *testing.T) *rig {
	t.Helper()
	options := redistest.Shared(t).Options()
	options.DB, options.ContextTimeoutEnabled = redistest.Database(t), true
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return scopedRigOn(t, client)
}

func scopedRigOn(t *testing.T, client *redis.Client) *rig {
	t.Helper()
	quota := func(rate string) config.Quota {
		r, err := throttle.ParseRate(rate)
		if err != nil {
			t.Fatal(err)
		}
		return config.Quota{Rate: r, Algorithm: meter.TokenBucket}
	}
	r := newRigOn(t, client, func(o *rigOptions) {
		for role, token := range map[config.Role]string{config.Producer: shopProducer, config.Viewer: shopViewer, config.Operator: shopOperator} {
			o.HTTP.Tokens = append(o.HTTP.Tokens, config.Token{Name: token, Role: role, Apps: []string{"shop"}, SHA256: config.Hash(sha256.Sum256([]byte(token)))})
		}
		o.Apps = operate.Apps{"shop": both, "secret-app": both}
		o.Quotas = func() (quotas.Quotas, error) {
			return quotas.Quotas{
				{Key: "apns/shop", Apps: []string{"shop"}, Quota: quota("10/1s")}, {Key: "apns/secret-app", Apps: []string{"secret-app"}, Quota: quota("10/1s")},
				{Key: "quota/both", Name: "both", Apps: []string{"secret-app", "shop"}, Quota: quota("10/1s")},
			}, nil
		}
	})
	for app, id := range map[string]string{"shop": "own", "secret-app": "secret"} {
		r.enqueue(app, id+"-1")
		r.enqueue(app, id+"-2")
		r.enqueue(app, id+"-dead")
		r.buryOf(app, id+"-dead")
		for _, level := range []limits.Level{{App: app}, {App: app, User: id + "-user"}, {User: id + "-user"}, {App: app, Category: id}, {Category: "secret-of-all"}} {
			r.override(level)
		}
		if err := r.options.Control.Pause(t.Context(), pause.Pause{App: app, By: id + "-operator", Reason: id}); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"apns/shop", "apns/secret-app", "quota/both"} {
		r.override(limits.Level{Quota: key})
	}
	must(t, r.options.Control.Pause(t.Context(), pause.Pause{Category: "news", By: "ada"}))
	for _, e := range []trail.Entry{
		{By: "own", Action: trail.Pause, Level: limits.Level{App: "shop"}, Count: 1}, {By: "own", Action: trail.SetLimit, Level: limits.Level{Quota: "quota/both"}, Count: 1},
		{By: "secret", Action: trail.Cancel, Level: limits.Level{App: "secret-app"}, ID: "secret-1", Count: 1}, {By: "secret", Action: trail.Cancel, Apps: []string{"secret-app", "shop"}, Count: 2},
		{By: "secret", Action: trail.SetLimit, Level: limits.Level{User: "secret-user"}, Count: 1}, {By: "secret", Action: trail.Purge, ID: "secret-malformed", Count: 1},
	} {
		must(t, trail.New(client, "").Add(t.Context(), e))
	}
	_, err := control.LeaveSnapshot(t.Context(), r.client, "", &control.Snapshot{ID: "w1", Routes: []way.Status{
		{App: "shop", Platform: push.APNs, Breaker: way.BreakerClosed}, {App: "secret-app", Platform: push.FCM, Breaker: way.BreakerOpen, Trouble: way.Trouble{Reason: "unavailable", Error: "secret", Since: time.Now()}},
	}}, true)
	must(t, err)
	// what cannot be read is of no app
	must(t, ledgertest.First(r.t, r.options.Records).SetAside(t.Context(), &ledger.Letter{ID: "secret-malformed", State: ledger.Malformed, Reason: "not_json", At: time.Now(), Queue: push.Default.Queue(), Job: []byte("secret")}))
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func of(app, id string) string {
	return fmt.Sprintf(`{"id":%q,"app":%q,"user":%q,"targets":[{"platform":"apns","token":"00fc"}],"title":"t"}`, id, app, strings.Split(id, "-")[0]+"-user")
}

func (r *rig) enqueue(app, id string) {
	r.t.Helper()
	r.do(http.StatusAccepted, operatorToken, "POST", "/v1/notifications", of(app, id))
}

func (r *rig) buryOf(app, id string) {
	r.t.Helper()
	var n push.Notification
	must(r.t, json.Unmarshal([]byte(of(app, id)), &n))
	job, err := push.Encode(&push.Job{Notification: &n, AcceptedAt: time.Now()})
	must(r.t, err)
	letter := &ledger.Letter{ID: id, State: push.Rejected, Reason: id, Attempts: 1, At: time.Now(), Queue: push.Default.Queue(), Job: job}
	_, err = ledgertest.At(r.t, r.options.Records, id).Settle(r.t.Context(), id, &ledger.End{State: push.Rejected, Letter: letter})
	must(r.t, err)
}

func (r *rig) override(level limits.Level) {
	r.t.Helper()
	o := limits.Override{Level: level, Policy: throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: time.Minute}}}, By: "secret-or-own"}
	if level.App == "shop" || level.Quota != "" {
		o.By = "own"
	}
	must(r.t, r.options.Overrides.Set(r.t.Context(), o))
}

// kept is all that Redis holds.
func (r *rig) kept() map[string]string {
	r.t.Helper()
	all := map[string]string{}
	keys, err := r.client.Keys(context.Background(), "*").Result()
	must(r.t, err)
	for _, key := range keys {
		if strings.Contains(key, "{workers}") { // which ends by itself
			continue
		}
		if all[key], err = r.client.Dump(context.Background(), key).Result(); err != nil {
			r.t.Fatal(err)
		}
	}
	return all
}

// An aside is a request about what is another app's. {x} stands for its name, where
// nothing is to be told from what there is not.
type aside struct {
	route, path, body string
	want              int
}

const (
	anyRate = `{"rates":["5/1m"]}`
	anyIDs  = `{"ids":["{x}-1","{x}-dead"]}`
)

// asides hold every route against what is not the shop's.
var asides = []aside{
	{"POST /v1/notifications", "", `{"app":"{x}-app","user":"u","targets":[{"platform":"apns","token":"00fc"}],"title":"t"}`, http.StatusForbidden},
	{"POST /v1/notifications:batch", "", `[{"app":"{x}-app","user":"u","targets":[{"platform":"apns","token":"00fc"}],"title":"t"}]`, http.StatusForbidden},
	{"GET /v1/notifications/{id}", "/v1/notifications/{x}-1", "", http.StatusNotFound},
	{"GET /v1/notifications/{id}", "/v1/notifications/{x}-dead", "", http.StatusNotFound},
	{"DELETE /v1/notifications/{id}", "/v1/notifications/{x}-1", "", http.StatusNotFound},
	{"DELETE /v1/notifications/{id}", "/v1/notifications/{x}-dead", "", http.StatusNotFound},
	{"GET /v1/waiting", "/v1/waiting?app={x}-app", "", http.StatusForbidden},
	{"GET /v1/waiting", "/v1/waiting?user={x}-user", "", http.StatusOK},
	{"POST /v1/cancellations", "", anyIDs, http.StatusOK},
	{"GET /v1/limits", "", "", http.StatusOK},
	{"GET /v1/limits/log", "", "", http.StatusOK},
	{"POST /v1/limits/import", "", `{"overrides":[{"app":"shop","rates":["5/1m"]},{"app":"{x}-app","rates":["5/1m"]}]}`, http.StatusForbidden},
	{"POST /v1/limits/import", "", `{"overrides":[{"user":"{x}-user","rates":["5/1m"]}]}`, http.StatusForbidden},
	{"POST /v1/limits/import", "", `{"overrides":[{"quota":"both","rates":["5/1m"]}]}`, http.StatusForbidden},
	{"POST /v1/limits/preview", "/v1/limits/preview", `{"app":"{x}-app","min_gap":"1s"}`, http.StatusForbidden},
	{"POST /v1/limits/preview", "/v1/limits/preview", `{"user":"{x}-user","min_gap":"1s"}`, http.StatusForbidden},
	{"POST /v1/limits/preview", "/v1/limits/preview", `{"quota":"both","rates":["1/1s"]}`, http.StatusForbidden},
	{"GET /v1/limits/apps/{app}", "/v1/limits/apps/{x}-app", "", http.StatusForbidden},
	{"PUT /v1/limits/apps/{app}", "/v1/limits/apps/{x}-app", anyRate, http.StatusForbidden},
	{"DELETE /v1/limits/apps/{app}", "/v1/limits/apps/{x}-app", "", http.StatusForbidden},
	{"GET /v1/limits/users/{user}", "/v1/limits/users/{x}-user", "", http.StatusForbidden},
	{"GET /v1/limits/users/{user}", "/v1/limits/users/{x}-user?app={x}-app", "", http.StatusForbidden},
	{"PUT /v1/limits/users/{user}", "/v1/limits/users/{x}-user", anyRate, http.StatusForbidden},
	{"PUT /v1/limits/users/{user}", "/v1/limits/users/{x}-user?app={x}-app", anyRate, http.StatusForbidden},
	{"DELETE /v1/limits/users/{user}", "/v1/limits/users/{x}-user", "", http.StatusForbidden},
	{"DELETE /v1/limits/users/{user}", "/v1/limits/users/{x}-user?app={x}-app", "", http.StatusForbidden},
	{"DELETE /v1/limits/users/{user}", "/v1/limits/users/{x}-user?app=shop", "", http.StatusNotFound},
	{"GET /v1/limits/users/{user}/categories/{category}", "/v1/limits/users/{x}-user/categories/{x}?app={x}-app", "", http.StatusForbidden},
	{"PUT /v1/limits/users/{user}/categories/{category}", "/v1/limits/users/{x}-user/categories/{x}", anyRate, http.StatusForbidden},
	{"DELETE /v1/limits/users/{user}/categories/{category}", "/v1/limits/users/{x}-user/categories/{x}?app={x}-app", "", http.StatusForbidden},
	{"GET /v1/limits/categories/{category}", "/v1/limits/categories/{x}-of-all", "", http.StatusForbidden},
	{"GET /v1/limits/categories/{category}", "/v1/limits/categories/{x}?app={x}-app", "", http.StatusForbidden},
	{"GET /v1/limits/categories/{category}", "/v1/limits/categories/{x}?app=shop", "", http.StatusOK},
	{"PUT /v1/limits/categories/{category}", "/v1/limits/categories/{x}-of-all", anyRate, http.StatusForbidden},
	{"DELETE /v1/limits/categories/{category}", "/v1/limits/categories/{x}-of-all", "", http.StatusForbidden},
	{"PUT /v1/limits/apps/{app}/mute", "/v1/limits/apps/{x}-app/mute", `{}`, http.StatusForbidden},
	{"DELETE /v1/limits/apps/{app}/mute", "/v1/limits/apps/{x}-app/mute", "", http.StatusForbidden},
	{"PUT /v1/limits/users/{user}/mute", "/v1/limits/users/{x}-user/mute", `{}`, http.StatusForbidden},
	{"DELETE /v1/limits/users/{user}/mute", "/v1/limits/users/{x}-user/mute?app={x}-app", "", http.StatusForbidden},
	{"PUT /v1/limits/users/{user}/categories/{category}/mute", "/v1/limits/users/{x}-user/categories/{x}/mute?app={x}-app", `{}`, http.StatusForbidden},
	{"DELETE /v1/limits/users/{user}/categories/{category}/mute", "/v1/limits/users/{x}-user/categories/{x}/mute", "", http.StatusForbidden},
	{"PUT /v1/limits/categories/{category}/mute", "/v1/limits/categories/{x}-of-all/mute", `{}`, http.StatusForbidden},
	{"DELETE /v1/limits/categories/{category}/mute", "/v1/limits/categories/{x}-of-all/mute", "", http.StatusForbidden},
	{"GET /v1/limits/quotas", "", "", http.StatusOK},
	{"PUT /v1/limits/quotas/{quota}", "/v1/limits/quotas/apns%2F{x}-app", anyRate, http.StatusForbidden},
	{"PUT /v1/limits/quotas/{quota}", "/v1/limits/quotas/both", anyRate, http.StatusForbidden},
	{"DELETE /v1/limits/quotas/{quota}", "/v1/limits/quotas/apns%2F{x}-app", "", http.StatusForbidden},
	{"DELETE /v1/limits/quotas/{quota}", "/v1/limits/quotas/both", "", http.StatusForbidden},
	{"GET /v1/users/{user}/timeline", "/v1/users/{x}-user/timeline?app={x}-app", "", http.StatusForbidden},
	{"GET /v1/dead-letters", "", "", http.StatusOK},
	{"GET /v1/dead-letters/{id}", "/v1/dead-letters/{x}-dead", "", http.StatusNotFound},
	{"GET /v1/dead-letters/{id}", "/v1/dead-letters/{x}-malformed", "", http.StatusNotFound},
	{"POST /v1/dead-letters/{id}/requeue", "/v1/dead-letters/{x}-dead/requeue", "", http.StatusNotFound},
	{"DELETE /v1/dead-letters/{id}", "/v1/dead-letters/{x}-dead", "", http.StatusNotFound},
	{"DELETE /v1/dead-letters/{id}", "/v1/dead-letters/{x}-malformed", "", http.StatusNotFound},
	{"POST /v1/requeues", "", anyIDs, http.StatusOK},
	{"POST /v1/purges", "", anyIDs, http.StatusOK},
	{"GET /v1/pauses", "", "", http.StatusOK},
	{"PUT /v1/pauses", "/v1/pauses?app={x}-app", `{}`, http.StatusForbidden},
	{"PUT /v1/pauses", "/v1/pauses?category={x}", `{}`, http.StatusForbidden},
	{"PUT /v1/pauses", "/v1/pauses?all=true", `{}`, http.StatusForbidden},
	{"DELETE /v1/pauses", "/v1/pauses?app={x}-app", "", http.StatusForbidden},
	{"DELETE /v1/pauses", "/v1/pauses?category=news", "", http.StatusForbidden},
	{"DELETE /v1/pauses", "/v1/pauses?platform=fcm", "", http.StatusForbidden},
	{"GET /v1/overview", "", "", http.StatusOK},
	{"GET /v1/workers", "", "", http.StatusOK},
	{"GET /v1/actions", "", "", http.StatusOK},
	{"GET /v1/audit", "", "", http.StatusForbidden},
	{"GET /v1/throughput", "", "", http.StatusForbidden},
}

// A token for one app sees nothing of another's by any route, changes nothing of it, and
// is not told by an answer whether there is any.
func TestScopes(t *testing.T) {
	t.Parallel()
	r := scopedRig(t)
	tokens := map[config.Role]string{config.Producer: shopProducer, config.Viewer: shopViewer, config.Operator: shopOperator}
	tried := map[string]bool{}
	before := r.kept()
	for _, a := range asides {
		i := slices.IndexFunc(routes, func(r route) bool { return r.method+" "+r.path == a.route })
		if i < 0 {
			t.Fatalf("there is no route %s", a.route)
		}
		tried[a.route] = true
		method, path, _ := strings.Cut(a.route, " ")
		if a.path != "" {
			path = a.path
		}
		for _, role := range rolesOf(routes[i]) {
			var answers []string
			for _, name := range []string{"secret", "nobody"} {
				named := strings.NewReplacer("{x}", name)
				answer := r.do(a.want, tokens[role], method, named.Replace(path), named.Replace(a.body))
				answers = append(answers, strings.ReplaceAll(answer.text, name, "{x}"))
			}
			if answers[0] != answers[1] && strings.Contains(path+a.body, "{x}") {
				t.Errorf("%s %s %s tells what there is: %s\nfrom what there is not: %s", role, method, path, answers[0], answers[1])
			}
			if !strings.Contains(path+a.body, "{x}") && strings.Contains(answers[0], "{x}") {
				t.Errorf("%s %s %s tells %s", role, method, path, answers[0])
			}
			if strings.Contains(answers[0], "secret") {
				t.Errorf("%s %s %s tells %s", role, method, path, answers[0])
			}
		}
	}
	for _, route := range routes {
		if route.action != nil && !tried[route.method+" "+route.path] {
			t.Errorf("%s %s is not held against what is another's", route.method, route.path)
		}
	}
	for key, value := range r.kept() {
		if before[key] != value {
			t.Errorf("%s has changed", key)
		}
		delete(before, key)
	}
	for key := range before {
		t.Errorf("%s is gone", key)
	}
}

// What is its own a token for one app sees and changes as one for all does.
func TestScopedOwn(t *testing.T) {
	t.Parallel()
	r := scopedRig(t)
	for _, c := range []struct {
		want               int
		token, method      string
		path, body, answer string
	}{
		{http.StatusAccepted, shopProducer, "POST", "/v1/notifications", of("shop", "own-3"), "own-3"},
		{http.StatusAccepted, shopProducer, "POST", "/v1/notifications", "[" + of("shop", "own-4") + "," + of("nobody-app", "x") + "]",
			`{"results":[{"id":"own-4","status":202},{"status":403,"errors":[{"pointer":"/1/app","detail":"the token is for the app shop alone, and this is another's or everybody's"}]}]}`},
		{http.StatusConflict, shopProducer, "POST", "/v1/notifications", of("shop", "secret-1"), "another notification's"},
		{http.StatusOK, shopViewer, "GET", "/v1/notifications/own-1", "", `"app":"shop"`},
		{http.StatusOK, shopViewer, "GET", "/v1/waiting", "", `"id":"own-1"`},
		{http.StatusOK, shopOperator, "POST", "/v1/cancellations", `{"ids":["own-1","secret-1"]}`, `[{"id":"own-1","outcome":"done"},{"id":"secret-1","outcome":"unknown"}]`},
		{http.StatusOK, shopProducer, "DELETE", "/v1/notifications/own-2", "", "cancelled"},
		{http.StatusOK, shopViewer, "GET", "/v1/limits", "", `{"app":"shop","user":"own-user",`},
		{http.StatusOK, shopViewer, "GET", "/v1/limits", "", `"security":{"exempt":true}`},
		{http.StatusOK, shopViewer, "GET", "/v1/limits", "", `{"quota":"quota/both"`},
		// a user's of all apps, as what is in force for its own
		{http.StatusOK, shopViewer, "GET", "/v1/limits/users/secret-user?app=shop", "", `"general":{"rates":["1/1m"],"source":"user"}`},
		{http.StatusOK, shopOperator, "PUT", "/v1/limits/users/secret-user?app=shop", anyRate, `"by":"shop-operator"`},
		{http.StatusNoContent, shopOperator, "DELETE", "/v1/limits/users/secret-user?app=shop", "", ""},
		{http.StatusOK, shopViewer, "GET", "/v1/limits/log?limit=1", "", `"why":"unset","app":"shop","user":"secret-user"`},
		{http.StatusOK, shopOperator, "PUT", "/v1/limits/quotas/apns%2Fshop", anyRate, `"quota":"apns/shop"`},
		{http.StatusOK, shopViewer, "GET", "/v1/limits/quotas", "", `"quota":"quota/both","apps":["shop"]`},
		{http.StatusOK, shopViewer, "GET", "/v1/users/own-user/timeline", "", `"app":"shop"`}, // its one app
		{http.StatusOK, shopViewer, "GET", "/v1/dead-letters", "", `"own-dead"`},
		{http.StatusOK, shopViewer, "GET", "/v1/dead-letters/own-dead", "", `"notification"`},
		{http.StatusOK, shopOperator, "POST", "/v1/requeues", `{"ids":["own-dead","secret-dead"]}`, `[{"id":"own-dead","outcome":"done"},{"id":"secret-dead","outcome":"unknown"}]`},
		{http.StatusOK, shopViewer, "GET", "/v1/pauses", "", `"category":"news"`},
		{http.StatusOK, shopOperator, "DELETE", "/v1/pauses?app=shop", "", `"own-operator"`},
		{http.StatusNoContent, shopOperator, "PUT", "/v1/pauses?app=shop&category=news", `{}`, ""},
		{http.StatusOK, shopViewer, "GET", "/v1/overview", "", `"apps":["shop"]`},
		{http.StatusOK, shopViewer, "GET", "/v1/actions?limit=1", "", `"by":"shop-operator","action":"pause","app":"shop","category":"news","count":1`},
	} {
		if answer := r.do(c.want, c.token, c.method, c.path, c.body); !strings.Contains(answer.text, c.answer) {
			t.Errorf("%s %s: %s", c.method, c.path, answer.text)
		}
	}
	var o operate.Overview
	r.do(http.StatusOK, shopViewer, "GET", "/v1/overview", "").into(t, &o)
	if len(o.Workers) != 1 || len(o.Workers[0].Routes) != 1 || o.Letters.Count != 0 || len(o.Providers) != 1 {
		t.Errorf("%+v", o)
	}
	if counts := r.counts(); counts.Ended[push.Cancelled] != 2 || counts.Letters != 2 {
		t.Errorf("%+v", counts)
	}
}

// An app of its own that waits for a restart is refused in words that name no other.
func TestScopedAppThatWaits(t *testing.T) {
	t.Parallel()
	for _, own := range [][]string{{"new"}, {"new", "shop"}} {
		r := newRig(t, func(o *rigOptions) {
			o.HTTP.Tokens = append(o.HTTP.Tokens, config.Token{Name: shopOperator, Role: config.Operator, Apps: own, SHA256: config.Hash(sha256.Sum256([]byte(shopOperator)))})
			o.Apps = operate.Apps{"shop": both, "secret-app": both}
		})
		for _, a := range []struct{ method, path, body string }{
			{"POST", "/v1/notifications", of("new", "n-1")},
			{"PUT", "/v1/limits/apps/new", anyRate},
			{"POST", "/v1/limits/preview", `{"app":"new","min_gap":"1s"}`},
			{"PUT", "/v1/pauses?app=new", `{}`},
			{"GET", "/v1/users/ada/timeline?app=new", ""},
		} {
			answer := r.do(http.StatusBadRequest, shopOperator, a.method, a.path, a.body)
			if !strings.Contains(answer.text, "is not one of the configuration's apps") || strings.Contains(answer.text, "secret") {
				t.Errorf("%s %s: %s", a.method, a.path, answer.text)
			}
		}
	}
}

// The log is read on to what is one's own, however much of it is others'.
func TestScopedLog(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *rigOptions) {
		o.HTTP.Tokens = append(o.HTTP.Tokens, config.Token{Name: shopViewer, Role: config.Viewer, Apps: []string{"shop"}, SHA256: config.Hash(sha256.Sum256([]byte(shopViewer)))})
	})
	all := make([]limits.Override, 0, 2*1000+10)
	for i := range cap(all) {
		o := limits.Override{Level: limits.Level{App: "secret-app", User: fmt.Sprint(i)}, Policy: throttle.Policy{MinGap: time.Minute}, By: "eve"}
		if i < 3 || i == 1500 {
			o.App = "shop"
		}
		all = append(all, o)
	}
	must(t, r.options.Overrides.Import(t.Context(), all))
	var log struct{ Changes []limits.Change }
	r.do(http.StatusOK, shopViewer, "GET", "/v1/limits/log?limit=2", "").into(t, &log)
	if len(log.Changes) != 2 || log.Changes[0].User != "1500" || log.Changes[1].User != "2" {
		t.Fatalf("%+v", log.Changes)
	}
	r.do(http.StatusOK, shopViewer, "GET", fmt.Sprintf("/v1/limits/log?limit=5&before=%d", log.Changes[1].Version), "").into(t, &log)
	if len(log.Changes) != 2 || log.Changes[0].User != "1" || log.Changes[1].User != "0" {
		t.Errorf("%+v", log.Changes)
	}
}

// A token for one app costs Redis as many commands to be refused what is another's as what
// there is not: the time tells nothing either.
func TestScopedCosts(t *testing.T) {
	t.Parallel()
	r := scopedRigOn(t, redistest.Start(t).Client(t))
	commands := func() int {
		text, err := r.client.Info(t.Context(), "stats").Result()
		must(t, err)
		_, text, _ = strings.Cut(text, "total_commands_processed:")
		n, err := strconv.Atoi(strings.Fields(text)[0])
		must(t, err)
		return n
	}
	for _, a := range asides {
		method, path, _ := strings.Cut(a.route, " ")
		if a.path != "" {
			path = a.path
		}
		if a.want == http.StatusOK || !strings.Contains(path, "{x}") {
			continue
		}
		costs := map[string]int{}
		for _, name := range []string{"nobody", "secret"} {
			before := commands()
			r.do(a.want, shopOperator, method, strings.ReplaceAll(path, "{x}", name), a.body)
			costs[name] = commands() - before
		}
		if costs["nobody"] != costs["secret"] {
			t.Errorf("%s %s: %v", method, path, costs)
		}
	}
}
