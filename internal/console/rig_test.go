package console

import (
	"crypto/sha256"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/access"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/control"
)

// A rig is a console over a real Redis, with all that serve gives it. Without tokens
// everyone on this machine is an operator.
type rig struct {
	t        *testing.T
	client   redis.UniversalClient
	setting  setting
	service  *operate.Service
	producer *push.Producer
	limiter  throttle.Planner
	console  *Console
	cookie   *http.Cookie // as a browser keeps it; nil for none
}

// A setting is what a rig is made with.
type setting struct {
	Options
	Work operate.Options // the service's, whose log is the console's
}

func testToken(name string, role config.Role, token string) config.Token {
	return config.Token{Name: name, Role: role, SHA256: config.Hash(sha256.Sum256([]byte(token)))}
}

// newRig makes one on a database of its own; change may adapt the options.
func newRig(t *testing.T, change ...func(*setting)) *rig {
	t.Helper()
	o := redistest.Shared(t).Options()
	o.DB, o.PoolSize, o.ContextTimeoutEnabled = redistest.Database(t), 20, true
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	return newRigOn(t, client, change...)
}

func newRigOn(t *testing.T, client redis.UniversalClient, change ...func(*setting)) *rig {
	t.Helper()
	shared, stop := pipeline.Share(client, pipeline.Options{Timeout: redistest.Patience})
	t.Cleanup(stop)
	records := ledger.NewRecords(shared, "", 0)
	_, err := records.All(t.Context()) // as a program knows since its start: an audit has no time to ask
	must(t, err)
	policies := limits.New(throttle.Policy{MinGap: time.Hour}, map[string]throttle.Policy{"security": {Exempt: true}})
	limiter, err := throttle.New(shared, throttle.Options{})
	must(t, err)
	t.Cleanup(func() { _ = limiter.Close() })
	control := control.New(shared, records, limiter, policies)
	cfg := new(config.Config)
	cfg.HTTP.SetDefaults()
	producer := push.NewProducer(shared, "", 0)
	counter := meter.NewRedis(shared, "")
	r := &rig{t: t, client: client, producer: producer, limiter: limiter, setting: setting{
		Options: Options{
			Config: cfg, Tokens: new(access.Tokens), Sessions: NewSessions(client, cfg.Redis.Prefix), Meter: counter,
			Log: slog.New(slog.DiscardHandler),
		},
		Work: operate.Options{
			Follows:  true,
			Producer: producer, Records: records, Control: control, Limits: policies, Overrides: limits.NewOverrides(shared, "", 0),
			Preview: &operate.Previewer{Limits: policies, Lines: limiter, Apps: []string{"shop"}}, Meter: counter,
			Apps: operate.Apps{"shop": {Platforms: []push.Platform{push.APNs, push.FCM}}}, Queue: client, Fresh: Fresh, Within: usual,
		},
	}}
	for _, f := range change {
		f(&r.setting)
	}
	r.renew(usual)
	return r
}

// usual is how long reading may take, on a machine that is busy, too.
const usual = time.Minute

// renew has the rig's console be one that has not looked at anything yet.
func (r *rig) renew(within time.Duration) {
	r.t.Helper()
	r.setting.Work.Log = r.setting.Log
	r.service = operate.New(r.setting.Work)
	r.t.Cleanup(r.service.Close)
	r.setting.Service, r.setting.Version = r.service, "v1.2.3"
	r.console = newConsole(r.setting.Options, within)
	r.t.Cleanup(r.console.Close)
}

// as returns another browser of the same console, signed in with the token.
func (r *rig) as(token string) *rig {
	r.t.Helper()
	other := *r
	other.cookie = nil
	other.post(http.StatusSeeOther, signInPath, url.Values{"token": {token}})
	return &other
}

// get expects the page with that status, and returns its text.
func (r *rig) get(want int, path string) string {
	r.t.Helper()
	return r.do(want, httptest.NewRequest(http.MethodGet, path, nil))
}

// post sends the form as a browser does, and expects that status. It returns where
// the answer leads, or its text.
func (r *rig) post(want int, path string, form url.Values) string {
	r.t.Helper()
	req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	return r.do(want, req)
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

// send sends the request from this machine, with the cookie that the browser has.
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
