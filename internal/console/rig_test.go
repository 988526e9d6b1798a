package console

import (
	"crypto/sha256"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/operatetest"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

func TestMain(m *testing.M) {
	for i := range routes { // without its own bound a route gets the rig's longer time, for a busy machine
		routes[i].within = 0
	}
	redistest.Parallel()
	goleak.VerifyTestMain(m, redistest.Dialing())
}

// A rig is a console over a real Redis, configured as serve does it. Without tokens every request
// from this machine is an operator's.
type rig struct {
	t        *testing.T
	client   redis.UniversalClient
	setting  setting
	service  *operate.Service
	producer operate.Producer
	limiter  throttle.Planner
	console  *Console
	cookie   *http.Cookie // as a browser keeps it; nil for none
}

// A setting holds the options of a rig.
type setting struct {
	Options
	Work operate.Options // the service's; its log is replaced by the console's
}

func testToken(name string, role config.Role, token string) config.Token {
	return config.Token{Name: name, Role: role, SHA256: config.Hash(sha256.Sum256([]byte(token)))}
}

// newRig makes a rig with its own database; change may adapt the options.
func newRig(t *testing.T, change ...func(*setting)) *rig {
	t.Helper()
	return newRigOn(t, redistest.Own(t), change...)
}

func newRigOn(t *testing.T, client redis.UniversalClient, change ...func(*setting)) *rig {
	t.Helper()
	work := operatetest.Options(t, client, limits.New(throttle.Policy{MinGap: time.Hour}, map[string]throttle.Policy{"security": {Exempt: true}}))
	work.Follows, work.Fresh, work.Within = true, Fresh, usual
	work.Apps = operate.Apps{"shop": operatetest.Both}
	cfg := new(config.Config)
	cfg.SetDefaults()
	r := &rig{t: t, client: client, limiter: work.Preview.Lines.(throttle.Planner), setting: setting{
		Options: Options{Config: cfg, Tokens: new(operate.Tokens), Sessions: NewSessions(client, cfg.Redis.Prefix), Meter: work.Meter, Log: slog.New(slog.DiscardHandler)},
		Work:    work,
	}}
	for _, f := range change {
		f(&r.setting)
	}
	r.producer = r.setting.Work.Producer
	_, err := r.setting.Work.Records.All(t.Context()) // as a program does at its start: an audit has too little time for it
	must(t, err)
	r.renew(usual)
	return r
}

// usual bounds reads in tests; a busy machine needs it.
const usual = time.Minute

// renew replaces the rig's console and service by new ones without cached results.
func (r *rig) renew(within time.Duration) {
	r.t.Helper()
	r.setting.Work.Log = r.setting.Log
	r.service = operate.New(r.setting.Work)
	r.t.Cleanup(r.service.Close)
	r.setting.Service, r.setting.Version = r.service, "v1.2.3"
	r.console = newConsole(r.setting.Options, within)
	r.t.Cleanup(r.console.Close)
}

// as returns a second browser of the same console, signed in with the token.
func (r *rig) as(token string) *rig {
	r.t.Helper()
	other := *r
	other.cookie = nil
	other.post(http.StatusSeeOther, signInPath, url.Values{"token": {token}})
	return &other
}

// get expects the status want, and returns the page's text.
func (r *rig) get(want int, path string) string {
	r.t.Helper()
	return r.do(want, httptest.NewRequest(http.MethodGet, path, nil))
}

// post sends the form as a browser does, and expects the status want. It returns the address of a
// redirect, or the text.
func (r *rig) post(want int, path string, form url.Values) string {
	r.t.Helper()
	return r.do(want, sending(http.MethodPost, path, form.Encode()))
}

// sending returns a request with a form, as a page of the console sends it.
func sending(method, path, form string) *http.Request {
	req := httptest.NewRequest(method, path, strings.NewReader(form))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	return req
}

func (r *rig) do(want int, req *http.Request) string {
	r.t.Helper()
	answer := r.send(req)
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != want {
		r.t.Fatalf("%s %s: %d, want %d: %s", req.Method, req.URL, answer.StatusCode, want, text)
	}
	for name, value := range header {
		if got := answer.Header.Get(name); got != value && name != "Cache-Control" {
			r.t.Errorf("%s %s: %s is %q", req.Method, req.URL, name, got)
		}
	}
	if to := answer.Header.Get("Location"); to != "" {
		return to
	}
	return string(text)
}

// send sends the request from this machine, with the browser's cookie.
func (r *rig) send(req *http.Request) *http.Response {
	req.Host = "localhost"
	if r.cookie != nil {
		req.AddCookie(r.cookie)
	}
	recorder := httptest.NewRecorder()
	r.console.ServeHTTP(recorder, req)
	answer := recorder.Result()
	for _, c := range answer.Cookies() {
		if r.cookie = c; c.MaxAge < 0 {
			r.cookie = nil
		}
	}
	return answer
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// secret is the token in all test notifications; pages may show its last six letters.
const secret = "5ec2e70000000000000000000000000000000000000000000000000000a1b2c3"

// toUser returns a notification with that ID.
func toUser(id, user, category string) *push.Notification {
	return &push.Notification{
		ID: id, App: "shop", User: user, Category: category, Title: "Hello", Data: map[string]string{"order": "10000000000000001"},
		Targets: []push.Target{{Platform: push.APNs, Token: secret}},
	}
}

// enqueue enqueues notifications as a producer.
func (r *rig) enqueue(all ...*push.Notification) {
	r.t.Helper()
	for _, result := range r.producer.EnqueueAll(r.t.Context(), all) {
		must(r.t, result.Err)
	}
}

// visitLimits enqueues notifications, asks the limiter for each as a worker does, and defers the
// denied ones to their slots.
func (r *rig) visitLimits(all ...*push.Notification) {
	r.t.Helper()
	ctx := r.t.Context()
	r.enqueue(all...)
	for _, n := range all {
		scopes := r.setting.Work.Limits.Scopes(n.App, n.User, n.Category)
		d, err := r.limiter.Acquire(ctx, throttle.Request{App: n.App, User: n.User, ID: n.ID, Category: n.Category, Scopes: scopes, Horizon: 100 * time.Hour})
		must(r.t, err)
		if d.Status == throttle.Granted {
			continue
		}
		until := time.Now().Add(d.Left)
		r.returnJob(n.ID, store.Deferred, until, &store.Deferral{Until: until, Scope: d.Scope, Rule: d.Rule})
	}
}

// returnJob returns a due job to the queue.
func (r *rig) returnJob(id string, why store.WaitReason, until time.Time, by *store.Deferral) {
	r.t.Helper()
	at := storetest.At(r.t, r.setting.Work.Records, id)
	job := storetest.ClaimJob(r.t, r.client, at, push.Default.Queue(), id)
	must(r.t, at.PutOff(r.t.Context(), job, &store.PutOff{Return: store.Return{Why: why, After: time.Until(until)}, Deferral: by}))
}

// addLetter ends a notification as a dead letter.
func (r *rig) addLetter(n *push.Notification, reason string, at time.Time) {
	r.t.Helper()
	ctx := r.t.Context()
	r.enqueue(n)
	name := push.Default.Queue()
	job, err := push.Encode(&push.Job{Notification: n, AcceptedAt: at})
	must(r.t, err)
	pipe := r.client.TxPipeline()
	first := storetest.First(r.t, r.setting.Work.Records)
	pipe.LRem(ctx, first.QueueKey(name, "pending"), 1, n.ID)
	pipe.Del(ctx, first.QueueKey(name, "t:"+n.ID))
	_, err = pipe.Exec(ctx)
	must(r.t, err)
	_, err = storetest.At(r.t, r.setting.Work.Records, n.ID).Settle(ctx, n.ID, &store.End{State: push.Rejected, Error: "it is " + reason, Letter: &store.Letter{
		ID: n.ID, State: push.Rejected, Reason: reason, Error: "it is " + reason, At: at, Queue: name, Job: job, Outcomes: push.Unsent(n.Targets),
	}})
	must(r.t, err)
}

// state returns the state of a notification.
func (r *rig) state(id string) push.State {
	r.t.Helper()
	record, _, err := r.setting.Work.Records.Lookup(r.t.Context(), push.Ref{ID: id})
	must(r.t, err)
	return record.State
}

// states expects these numbers of notifications by state.
func (r *rig) states(want map[push.State]int64) {
	r.t.Helper()
	counts, err := r.setting.Work.Records.Counts(r.t.Context())
	must(r.t, err)
	got := map[push.State]int64{push.Waiting: counts.Waiting()}
	for state, n := range counts.Ended {
		got[state] = n
	}
	for state, n := range got {
		if n != want[state] {
			r.t.Errorf("%d are %s, want %d", n, state, want[state])
		}
	}
}

// line enqueues n notifications for one user: the first is granted, and the others wait.
func (r *rig) line(user string, n int) (ids []string) {
	r.t.Helper()
	for i := range n {
		ids = append(ids, fmt.Sprintf("%s-%d", user, i))
		r.visitLimits(toUser(ids[i], user, "news"))
	}
	return ids
}

// hidden returns the fields of a page's confirmation form.
func hidden(t *testing.T, text string) url.Values {
	t.Helper()
	form := fields(text)
	if form.Get("confirmed") != "yes" {
		t.Fatalf("nothing is to be confirmed:\n%s", text)
	}
	return form
}

// fields returns the hidden fields of the page's forms.
func fields(text string) url.Values {
	form := url.Values{}
	_, text, _ = strings.Cut(text, "<main")
	for _, m := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`).FindAllStringSubmatch(text, -1) {
		form.Add(html.UnescapeString(m[1]), html.UnescapeString(m[2]))
	}
	return form
}

// slow limits each user to one notification an hour.
func slow(o *setting) {
	o.Work.Limits.SetBase(throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: time.Hour}}}, nil)
}

func leads(t *testing.T, to, want string) {
	t.Helper()
	if to != want {
		t.Errorf("it leads to %s, not to %s", to, want)
	}
}

func contains(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

func lacks(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, never := range all {
		if strings.Contains(text, never) {
			t.Errorf("%q is in:\n%s", never, text)
		}
	}
}

var parameter = regexp.MustCompile(`\{[a-z]+\}`)

// filled replaces each parameter of the path by the name none.
func filled(path string) string {
	return strings.ReplaceAll(parameter.ReplaceAllString(path, "none"), "{$}", "")
}
