package api

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/zone"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/auditlog"
	"github.com/pushpace/pushpace/internal/operate/operatetest"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/quiet"
)

func TestMain(m *testing.M) {
	redistest.Parallel()
	// the server waits half a second for the client of a closed connection
	goleak.VerifyTestMain(m, redistest.Dialing(), goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// A rig is an API over a real Redis, with all parts that serve gives it. It checks each
// request and answer against the document.
type rig struct {
	t       *testing.T
	client  *redis.Client
	options rigOptions
	service *operate.Service
	tokens  *operate.Tokens
	api     *API
	log     *logged
}

// rigOptions configure a rig's API and the service below it.
type rigOptions struct {
	operate.Options
	HTTP config.HTTP
}

// The tokens of a rig.
const (
	producerToken = "producer-token"
	viewerToken   = "viewer-token"
	operatorToken = "operator-token"
	ratedToken    = "rated-token" // has a rate that no test uses up
)

func testToken(name string, role config.Role, token string, apps ...string) config.Token {
	return config.Token{Name: name, Role: role, SHA256: config.Hash(sha256.Sum256([]byte(token))), Apps: apps}
}

func testTokens() []config.Token {
	rated := testToken("rated", config.Producer, ratedToken)
	rated.Rate = &config.Quota{Rate: throttle.Rate{Count: 1000, Period: time.Hour}}
	return []config.Token{
		testToken("shop", config.Producer, producerToken), testToken("wall", config.Viewer, viewerToken), testToken("ada", config.Operator, operatorToken), rated,
	}
}

// demo configures the apps demo and shop.
func demo(o *rigOptions) { o.Apps = operate.Apps{"demo": operatetest.Both, "shop": operatetest.Both} }

// newRig returns a rig with its own database; change may adapt the options.
func newRig(t *testing.T, change ...func(*rigOptions)) *rig {
	t.Helper()
	return newRigOn(t, redistest.Own(t), change...)
}

func newRigOn(t *testing.T, client *redis.Client, change ...func(*rigOptions)) *rig {
	t.Helper()
	berlin, err := zone.Load("Europe/Berlin")
	must(t, err)
	policies := limits.New(throttle.Policy{MinGap: time.Second, Night: quiet.Night{Zone: berlin, Spread: 10 * time.Minute}}, map[string]throttle.Policy{"security": {Exempt: true}})
	r := &rig{t: t, client: client, log: new(logged)}
	r.options.Options = operatetest.Options(t, client, policies)
	var cfg config.Config
	cfg.SetDefaults()
	r.options.HTTP = cfg.HTTP
	r.options.HTTP.Tokens, r.options.HTTP.Timeout = testTokens(), eventually.Patience
	r.options.Log = slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for _, f := range change {
		f(&r.options)
	}
	r.options.Within = r.options.HTTP.Timeout
	r.tokens = new(operate.Tokens)
	r.tokens.Set(r.options.HTTP.Tokens)
	r.service = operate.New(r.options.Options)
	t.Cleanup(r.service.Close)
	r.api = New(Options{HTTP: r.options.HTTP, Tokens: r.tokens, Service: r.service, Meter: r.options.Meter, Log: r.options.Log})
	t.Cleanup(r.api.Close)
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rolesOf returns the roles that may use the route.
func rolesOf(r route) (roles []config.Role) {
	for _, role := range []config.Role{config.Producer, config.Viewer, config.Operator} {
		if r.action != nil && r.action.Allows(operate.Principal{Role: role}) {
			roles = append(roles, role)
		}
	}
	return roles
}

// logged collects the log.
type logged struct{ eventually.Log }

// lines returns the lines, and clears the log.
func (l *logged) lines() []string {
	return strings.FieldsFunc(l.Take(), func(r rune) bool { return r == '\n' })
}

// logged returns the log and clears it, and restarts the deduplication.
func (r *rig) logged() []string {
	r.api.repeats.Close()
	r.service.Close()
	return r.log.lines()
}

// An exchange is a request and its answer.
type exchange struct {
	*http.Response
	text string
	t    *testing.T
}

// request returns a request, with application/json if there is a body.
func request(token, method, path, body string) *http.Request {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req
}

// serve answers the request. Unlike do, it does not check the answer against the document.
func (r *rig) serve(req *http.Request) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	r.api.ServeHTTP(recorder, req)
	return recorder
}

// do makes the request, and expects the status want.
func (r *rig) do(want int, token, method, path, body string) *exchange {
	r.t.Helper()
	return r.send(want, request(token, method, path, body), body)
}

func (r *rig) send(want int, req *http.Request, body string) *exchange {
	r.t.Helper()
	recorder := r.serve(req)
	answer := &exchange{recorder.Result(), recorder.Body.String(), r.t}
	if answer.StatusCode != want {
		r.t.Fatalf("%s %s: %d, want %d: %s", req.Method, req.URL, answer.StatusCode, want, answer.text)
	}
	req.Body = io.NopCloser(strings.NewReader(body))
	if err := conforms(req, answer); err != nil {
		r.t.Errorf("%s %s: %d: %v\n%s", req.Method, req.URL, answer.StatusCode, err, answer.text)
	}
	if problem := want >= 400; problem != (answer.Header.Get("Content-Type") == "application/problem+json") {
		r.t.Errorf("%s %s: %d has the type %q", req.Method, req.URL, want, answer.Header.Get("Content-Type"))
	}
	return answer
}

// into decodes the answer.
func into[T any](e *exchange) (v T) {
	e.t.Helper()
	d := json.NewDecoder(strings.NewReader(e.text))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		e.t.Fatalf("%v\n%s", err, e.text)
	}
	return v
}

// problem decodes the answer as a problem.
func (e *exchange) problem(t *testing.T) *problem {
	t.Helper()
	p := into[*problem](e)
	if p.Status != e.StatusCode || p.Title != http.StatusText(p.Status) {
		t.Errorf("%d: %s", e.StatusCode, e.text)
	}
	return p
}

// notification returns a notification as JSON.
func notification(id, user string) string {
	return fmt.Sprintf(`{"id":%q,"app":"demo","user":%q,"category":"orders","targets":[{"platform":"apns","token":"00fc"}],"title":"t"}`, id, user)
}

// actions returns the audit log.
func (r *rig) actions(query string) []auditlog.Entry {
	r.t.Helper()
	return into[struct{ Actions []auditlog.Entry }](r.do(http.StatusOK, viewerToken, "GET", "/v1/actions"+query, "")).Actions
}

func (r *rig) counts() store.Counts {
	r.t.Helper()
	counts, err := r.options.Records.Counts(r.t.Context())
	must(r.t, err)
	return counts
}

// bury ends a notification as a dead letter.
func (r *rig) bury(id string) {
	r.t.Helper()
	var n push.Notification
	must(r.t, json.Unmarshal([]byte(notification(id, "ada")), &n))
	r.buryAt(storetest.At(r.t, r.options.Records, id), &n)
}

func (r *rig) buryAt(at *store.Shard, n *push.Notification) {
	r.t.Helper()
	job, err := push.Encode(&push.Job{Notification: n, AcceptedAt: time.Now()})
	must(r.t, err)
	letter := &store.Letter{ID: n.ID, State: push.Rejected, Reason: "payload", Attempts: 1, At: time.Now(), Queue: push.Default.Queue(), Job: job}
	_, err = at.Settle(r.t.Context(), n.ID, &store.End{State: push.Rejected, Letter: letter})
	must(r.t, err)
}

// pointers returns the pointers of all faults.
func pointers(p *problem) (all []string) {
	for _, f := range p.Errors {
		all = append(all, f.Pointer)
	}
	return all
}

// second returns the error of a call with two results.
func second[T any](_ T, err error) error { return err }
