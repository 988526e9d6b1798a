package console

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/ledger/ledgertest"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/quotas"
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
	shopViewer   = "shop-viewer"
	shopOperator = "shop-operator"
)

// A scopedRig has two apps, the shop and one of which those with a token for the shop are
// to learn nothing: whatever is its own has a name with "secret" in it.
func scopedRig(t *testing.T) *rig {
	t.Helper()
	quota := func(text string) config.Quota {
		rate, err := throttle.ParseRate(text)
		must(t, err)
		return config.Quota{Rate: rate, Algorithm: meter.TokenBucket}
	}
	var shown config.Config
	shown.SetDefaults()
	shown.Apps = map[string]config.App{"shop": {Simulated: true}, "secret-app": {Simulated: true}}
	shown.Limits.Quotas = map[string]config.NamedQuota{"secret-quota": {Quota: quota("10/1s"), Apps: []string{"secret-app"}}}
	r := newRig(t, func(o *setting) {
		of := func(name string, role config.Role) config.Token {
			one := testToken(name, role, name)
			one.Apps = []string{"shop"}
			return one
		}
		o.Tokens.Set([]config.Token{of(shopViewer, config.Viewer), of(shopOperator, config.Operator), testToken("secret-ada", config.Operator, operatorToken)})
		shown.HTTP.Tokens = []config.Token{of(shopViewer, config.Viewer), of(shopOperator, config.Operator), testToken("secret-ada", config.Operator, operatorToken)}
		o.Config = &shown
		o.Work.Apps = operate.Apps{"shop": {Platforms: []push.Platform{push.APNs, push.FCM}}, "secret-app": {Platforms: []push.Platform{push.APNs, push.FCM}}}
		o.Work.Quotas = func() (quotas.Quotas, error) {
			return quotas.Quotas{
				{Key: "apns/shop", Apps: []string{"shop"}, Quota: quota("10/1s")}, {Key: "apns/secret-app", Apps: []string{"secret-app"}, Quota: quota("10/1s")},
				{Key: "quota/both", Name: "both", Apps: []string{"secret-app", "shop"}, Quota: quota("10/1s")},
			}, nil
		}
	})
	return r
}

// fill gives the app things of all kinds.
func (r *rig) fill(app, name string) {
	t := r.t
	t.Helper()
	for _, id := range []string{name + "-1", name + "-2", name + "-dead", name + "-cancelled"} {
		n := &push.Notification{ID: id, App: app, User: name + "-user", Category: name, Title: name, Targets: []push.Target{{Platform: push.APNs, Token: "00fc"}}}
		_, err := r.producer.Enqueue(t.Context(), n)
		must(t, err)
		if id == name+"-dead" {
			job, err := push.Encode(&push.Job{Notification: n, AcceptedAt: time.Now()})
			must(t, err)
			letter := &ledger.Letter{ID: id, State: push.Rejected, Reason: name, Attempts: 1, At: time.Now(), Queue: push.Default.Queue(), Job: job}
			_, err = ledgertest.At(r.t, r.setting.Work.Records, id).Settle(t.Context(), id, &ledger.End{State: push.Rejected, Letter: letter})
			must(t, err)
		}
	}
	must(t, r.setting.Work.Control.Cancel(t.Context(), push.Ref{ID: name + "-cancelled"}))
	must(t, r.setting.Work.Control.Pause(t.Context(), pause.Pause{App: app, By: name + "-operator", Reason: name}))
	r.act(trail.Entry{By: name + "-operator", Action: trail.Pause, Level: limits.Level{App: app}, Count: 1, Reason: name})
	r.act(trail.Entry{By: name + "-operator", Action: trail.Cancel, Level: limits.Level{App: app}, ID: name + "-cancelled", Count: 1})
	for _, level := range []limits.Level{{App: app}, {App: app, User: name + "-user"}, {App: app, Category: name}} {
		r.override(level)
	}
	for i := range 3 {
		request := throttle.Request{App: app, User: name + "-user", ID: fmt.Sprintf("%s-sent-%d", name, i), Scopes: r.setting.Work.Limits.Scopes(app, name+"-user", "")}
		_, err := r.limiter.Acquire(t.Context(), request)
		must(t, err)
	}
}

// work leaves a worker's snapshot with these routes.
func (r *rig) work(routes ...way.Status) {
	r.t.Helper()
	w := &control.Snapshot{ID: "w1", Routes: routes}
	if len(routes) > 1 {
		w.Waiting, w.Minutes, w.Quotas = 3, []control.Minute{{At: time.Now(), Sent: 777_777}}, []way.QuotaStatus{{Key: "apns/secret-app"}}
	}
	_, err := control.LeaveSnapshot(r.t.Context(), r.client, "", w, true)
	must(r.t, err)
}

var ownRoute = way.Status{App: "shop", Platform: push.APNs, Breaker: way.BreakerClosed}

// fillOwn gives the shop its own, and fillSecret the other app, and everybody.
func (r *rig) fillOwn() {
	r.fill("shop", "own")
	r.override(limits.Level{Quota: "apns/shop"})
	r.override(limits.Level{Quota: "quota/both"})
	must(r.t, r.setting.Work.Control.Pause(r.t.Context(), pause.Pause{Category: "news", By: "ada"}))
	r.work(ownRoute)
}

func (r *rig) fillSecret() {
	r.fill("secret-app", "secret")
	for _, level := range []limits.Level{{User: "secret-user"}, {Category: "secret-of-all"}, {Quota: "apns/secret-app"}} {
		r.override(level)
	}
	for _, e := range []trail.Entry{{Level: limits.Level{User: "secret-user"}}, {Level: limits.Level{Quota: "apns/secret-app"}}, {Apps: []string{"secret-app", "shop"}}, {ID: "secret-malformed"}} {
		e.By, e.Action, e.Count = "secret-ada", trail.Purge, 1
		r.act(e)
	}
	r.work(ownRoute, way.Status{App: "secret-app", Platform: push.FCM, Breaker: way.BreakerOpen, Trouble: way.Trouble{Reason: "unavailable", Error: "secret", Since: time.Now()}})
	// what cannot be read is of no app
	must(r.t, ledgertest.First(r.t, r.setting.Work.Records).SetAside(r.t.Context(), &ledger.Letter{ID: "secret-malformed", State: ledger.Malformed, Reason: "not_json", At: time.Now(), Queue: push.Default.Queue(), Job: []byte("secret")}))
}

func (r *rig) override(level limits.Level) {
	r.t.Helper()
	by := "secret-or-own"
	if level.App == "shop" || level.Quota != "" {
		by = "own"
	}
	must(r.t, r.setting.Work.Overrides.Set(r.t.Context(), limits.Override{Level: level, Policy: throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: time.Minute}}}, By: by}))
}

// kept is all that Redis holds, but for sessions and what ends by itself.
func (r *rig) kept() map[string]string {
	r.t.Helper()
	all := map[string]string{}
	keys, err := r.client.Keys(r.t.Context(), "*").Result()
	must(r.t, err)
	for _, key := range keys {
		if strings.Contains(key, "{workers}") || strings.Contains(key, ":session:") {
			continue
		}
		all[key], err = r.client.Dump(r.t.Context(), key).Result()
		must(r.t, err)
	}
	return all
}

// named are the values that name another app's things in an address or a form, by what
// they are called there; {x} is secret, or what there is nothing of. A POST with any of
// them changes nothing.
var named = map[string][]string{
	"ref": {"id={x}-1", "id={x}-dead", "id={x}-cancelled", "id={x}-malformed", "app={x}-app&id={x}-1&user={x}-user", "app=shop&id={x}-dead&user={x}-user"}, "q": {"{x}-1", "{x}-dead", "{x}-user", "{x}-cancelled"},
	"user": {"{x}-user"}, "app": {"{x}-app"}, "category": {"{x}", "{x}-of-all"}, "quota": {"apns/{x}-app", "both"},
}

// besides are what a form has in its other fields, so that it is taken as far as it goes.
var besides = map[string]string{
	"rates": "5/1m", "rate": "5/1m", "reason": "r", "do": "purge", "confirmed": "yes", "expect": "1", "all": "yes", "for": "1h", "action": "set",
}

// tries are the queries and forms that a route is tried with.
func tries(r route) (queries, forms []url.Values) {
	return combinations(r.query, nil), combinations(r.form, besides)
}

// combinations are nothing, each value of each name, and all of them: by themselves and
// beside others.
func combinations(names []string, others map[string]string) []url.Values {
	sets, whole := []url.Values{{}}, url.Values{}
	for _, name := range names {
		for _, value := range named[name] {
			sets = append(sets, url.Values{name: {value}})
			whole[name] = []string{value}
		}
	}
	if len(whole) > 1 {
		sets = append(sets, whole)
	}
	for _, set := range slices.Clone(sets) {
		for _, all := range []bool{false, true} {
			beside := maps.Clone(set)
			for name, value := range others {
				if slices.Contains(names, name) && (all || name != "all") && !set.Has(name) {
					beside.Set(name, value)
				}
			}
			if len(beside) > len(set) && len(set) > 0 {
				sets = append(sets, beside)
			}
		}
	}
	return sets
}

var (
	pictures    = regexp.MustCompile(`(?s)<svg.*?</svg>`)
	moments     = regexp.MustCompile(`(?s)<time[^>]*>.*?</time>`)
	spansOfTime = regexp.MustCompile(`\b\d+(\.\d+)? ?(µs|ms|s|m|h)(\d+(m|s))*\b`)
)

// A page for one app shows nothing of another's, and does not tell whether there is any;
// and no form changes anything of it.
func TestOthersAreNotTold(t *testing.T) {
	t.Parallel()
	r := scopedRig(t)
	r.fillOwn()
	r.fillSecret()
	browsers := map[config.Role]*rig{config.Viewer: r.as(shopViewer), config.Operator: r.as(shopOperator)}
	tried := 0
	for _, route := range routes {
		for _, path := range pathsOf(route) {
			queries, forms := tries(route)
			for _, query := range queries {
				for _, form := range forms {
					if route.method == http.MethodPost && !strings.Contains(path, "%7Bx%7D") && !namesOthers(form) {
						continue // of no app's things in particular
					}
					for _, role := range rolesOf(route) {
						tried++
						try(t, browsers[role], role, route, path, query, form)
					}
				}
			}
		}
	}
	if tried < 200 {
		t.Errorf("%d attempts", tried)
	}
}

// What a page for one app shows is the same whether there is anything of another's or not:
// no sum has it.
func TestOthersChangeNoPage(t *testing.T) {
	t.Parallel()
	r := scopedRig(t)
	r.fillOwn()
	browser := r.as(shopOperator)
	look := func() map[string]string {
		browser.renew(usual)
		shown := map[string]string{}
		for _, route := range routes {
			if route.method != http.MethodGet || !slices.Contains(rolesOf(route), config.Operator) || route.serve != nil {
				continue
			}
			queries, _ := tries(route)
			for _, path := range pathsOf(route) {
				for _, query := range queries {
					address := strings.NewReplacer("%7Bx%7D-app", "shop", "%7Bx%7D", "own").Replace(path + "?" + query.Encode())
					answer := browser.send(httptest.NewRequest(route.method, address, nil))
					shown[address] = timeless(t, answer)
				}
			}
		}
		return shown
	}
	before := look()
	r.fillSecret()
	for address, after := range look() {
		if before[address] != after {
			t.Errorf("%s is another page since there is another app: %s", address, firstDifference(before[address], after))
		}
	}
}

// timeless is an answer without what passes with the time.
func timeless(t *testing.T, answer *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(answer.Body)
	must(t, err)
	text := spansOfTime.ReplaceAllString(moments.ReplaceAllString(pictures.ReplaceAllString(string(body), ""), "…"), "…")
	return fmt.Sprintln(answer.StatusCode, answer.Header.Get("Location")) + text
}

func namesOthers(form url.Values) bool {
	return slices.ContainsFunc(fieldsOf(form), func(f field) bool { return strings.Contains(f.Value, "{x}") })
}

// pathsOf are the paths of a route with the names of another app's things in it.
func pathsOf(r route) []string {
	paths := []string{strings.ReplaceAll(r.path, "{$}", "")}
	for name, values := range named {
		var filled []string
		for _, path := range paths {
			if !strings.Contains(path, "{"+name+"}") {
				filled = append(filled, path)
				continue
			}
			for _, value := range values {
				filled = append(filled, strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value)))
			}
		}
		paths = filled
	}
	return paths
}

// try asks for what is another's and for what there is not, and expects the same.
func try(t *testing.T, b *rig, role config.Role, route route, path string, query, form url.Values) {
	t.Helper()
	before := map[string]string{}
	if route.method == http.MethodPost {
		before = b.kept()
	}
	var answers [2]string
	asked := path + "?" + query.Encode() + " " + form.Encode()
	for i, name := range []string{"secret", "nobody"} {
		replace := func(text string) string {
			return strings.NewReplacer("{x}", name, "%7Bx%7D", name).Replace(text)
		}
		req := httptest.NewRequest(route.method, replace(path+"?"+query.Encode()), strings.NewReader(replace(form.Encode())))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		browser := *b
		answer := browser.send(req)
		answers[i] = timeless(t, answer)
		if answer.StatusCode >= http.StatusInternalServerError {
			t.Errorf("%s %s %s: %s", role, route.method, asked, answers[i])
		}
		if name == "secret" && !strings.Contains(asked, "{x}") && !strings.Contains(asked, "%7Bx%7D") && strings.Contains(answers[i], "secret") {
			t.Errorf("%s %s %s shows %s", role, route.method, asked, around(answers[i], "secret"))
		}
		answers[i] = strings.ReplaceAll(answers[i], name, "{x}")
	}
	if answers[0] != answers[1] {
		t.Errorf("%s %s %s tells what there is from what there is not: %s", role, route.method, asked, firstDifference(answers[0], answers[1]))
	}
	if route.method != http.MethodPost {
		return
	}
	after := b.kept()
	for key := range after {
		if before[key] != after[key] {
			t.Errorf("%s %s %s changes %s", role, route.method, asked, key)
		}
		delete(before, key)
	}
	for key := range before {
		t.Errorf("%s %s %s deletes %s", role, route.method, asked, key)
	}
}

func around(text, word string) string {
	at := strings.Index(text, word)
	return text[max(0, at-100):min(len(text), at+100)]
}

func firstDifference(a, b string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return a[max(0, i-60):min(len(a), i+100)] + "\n…\n" + b[max(0, i-60):min(len(b), i+100)]
		}
	}
	return fmt.Sprintf("one is %d bytes longer", max(len(a), len(b))-min(len(a), len(b)))
}

// Of how many letters of all apps were looked at, a page for some does not tell.
func TestLettersAreNotCountedForOthers(t *testing.T) {
	t.Parallel()
	for total, want := range map[int64]string{6000: "0 dead letters match of the 5,000 looked at here; 6,000 are kept in all.", -1: "0 dead letters here; there may be more."} {
		filter := []field{{"app", ""}, {"category", ""}, {"reason", ""}, {"since", ""}}
		if v := viewOfLetters(nil, 5000, filter, "", "1-0", 0, total, time.Now()); v.Answer != want {
			t.Errorf("%d: %s", total, v.Answer)
		}
	}
}

// A change of what is another app's cannot be undone, and is none to who asks.
func TestOthersChangesAreNotUndone(t *testing.T) {
	t.Parallel()
	r := scopedRig(t)
	r.fillSecret()
	browser := r.as(shopOperator)
	before := r.kept()
	changes, err := r.setting.Work.Overrides.Log(t.Context(), 0, 1)
	must(t, err)
	for _, version := range []int64{changes[0].Version, changes[0].Version + 1} {
		browser.post(http.StatusNotFound, limitsLogPath, url.Values{"version": {fmt.Sprint(version)}, "confirmed": {"yes"}})
	}
	if !maps.Equal(before, r.kept()) {
		t.Error("something has changed")
	}
}
