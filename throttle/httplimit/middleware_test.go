package httplimit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// byUser limits the requests with a User header.
func byUser(scopes ...throttle.Scope) func(*http.Request) throttle.Request {
	return func(r *http.Request) throttle.Request {
		return throttle.Request{App: "shop", User: r.Header.Get("User"), Scopes: scopes}
	}
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "hello")
})

func get(h http.Handler, user string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("User", user)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func inMemory(t *testing.T, o throttle.Options) *throttle.Memory {
	t.Helper()
	l, err := throttle.NewMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestMiddlewareLimitsRequests(t *testing.T) {
	t.Parallel()
	var passed atomic.Int64
	l := inMemory(t, throttle.Options{Now: func() time.Time { return time.Unix(1_700_000_000, passed.Load()) }})
	h := Middleware(l, byUser(
		throttle.Scope{Name: throttle.General, Policy: throttle.Policy{MinGap: 1500 * time.Millisecond, Rates: []throttle.Rate{{Count: 2, Period: time.Minute}}}},
		throttle.Scope{Name: "añb", Policy: throttle.Policy{Rates: []throttle.Rate{{Count: 10, Period: time.Hour}}}},
	), Options{})(hello)

	const policy = `"all:gap";q=1;w=2, "all:2/1m";q=2;w=60, "a%C3%B1b:10/1h";q=10;w=3600`
	for _, step := range []struct {
		after      time.Duration
		user       string
		status     int
		limit      string
		retryAfter string
		violated   string
	}{
		{0, "u1", 200, `"all:gap";r=0;t=2, "all:2/1m";r=1;t=60, "a%C3%B1b:10/1h";r=9;t=3600`, "", ""},
		{0, "u1", 429, `"all:gap";r=0;t=2`, "2", "all:gap"},
		{0, "u2", 200, `"all:gap";r=0;t=2, "all:2/1m";r=1;t=60, "a%C3%B1b:10/1h";r=9;t=3600`, "", ""},
		{time.Second, "u1", 429, `"all:gap";r=0;t=1`, "1", "all:gap"},
		{500 * time.Millisecond, "u1", 200, `"all:gap";r=0;t=2, "all:2/1m";r=0;t=60, "a%C3%B1b:10/1h";r=8;t=3600`, "", ""},
		{18 * time.Second, "u1", 429, `"all:2/1m";r=0;t=41`, "41", "all:2/1m"},
		// Denied requests are not recorded.
		{40500 * time.Millisecond, "u1", 200, `"all:gap";r=0;t=2, "all:2/1m";r=0;t=60, "a%C3%B1b:10/1h";r=7;t=3600`, "", ""},
	} {
		passed.Add(int64(step.after))
		got := get(h, step.user)
		body, _ := io.ReadAll(got.Body)
		if got.StatusCode != step.status || got.Header.Get("RateLimit") != step.limit ||
			got.Header.Get("RateLimit-Policy") != policy || got.Header.Get("Retry-After") != step.retryAfter {
			t.Errorf("%+v:\ngot %d %v\n%s", step, got.StatusCode, got.Header, body)
		}
		if step.status == 200 {
			if string(body) != "hello" {
				t.Errorf("%+v: body %q", step, body)
			}
			continue
		}
		var p map[string]any
		if err := json.Unmarshal(body, &p); err != nil {
			t.Fatalf("%+v: %v in %q", step, err, body)
		}
		want := map[string]any{
			"type":              "https://iana.org/assignments/http-problem-types#quota-exceeded",
			"title":             "Request cannot be satisfied as assigned quota has been exceeded",
			"status":            429.0,
			"violated-policies": []any{step.violated},
		}
		if !reflect.DeepEqual(p, want) || got.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%+v: %s %s", step, got.Header.Get("Content-Type"), body)
		}
	}
}

func TestMiddlewarePassesRequestsWithoutUserOrScopes(t *testing.T) {
	t.Parallel()
	l := inMemory(t, throttle.Options{})
	one := throttle.Scope{Name: throttle.General, Policy: throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: time.Hour}}}}
	for name, h := range map[string]http.Handler{
		"no user":   Middleware(l, byUser(one), Options{})(hello),
		"no scopes": Middleware(l, func(*http.Request) throttle.Request { return throttle.Request{User: "u"} }, Options{})(hello),
	} {
		for range 3 {
			got := get(h, "")
			if got.StatusCode != 200 || got.Header.Get("RateLimit") != "" || got.Header.Get("RateLimit-Policy") != "" {
				t.Errorf("%s: %d %v", name, got.StatusCode, got.Header)
			}
		}
	}
	known, err := l.Timeline(t.Context(), throttle.Request{User: "u", Scopes: []throttle.Scope{one}})
	if err != nil || len(known.Admissions[throttle.General]) > 0 {
		t.Errorf("%+v, %v", known, err)
	}
}

// away is a limiter without a connection to its store.
type away struct{ throttle.Planner }

func (away) Acquire(context.Context, throttle.Request) (throttle.Decision, error) {
	return throttle.Decision{}, fmt.Errorf("%w: connection refused", throttle.ErrUnavailable)
}

func TestMiddlewareOnLimiterError(t *testing.T) {
	t.Parallel()
	key := byUser(throttle.Scope{Name: throttle.General, Policy: throttle.Policy{MinGap: time.Second, Rates: []throttle.Rate{{Count: 5, Period: time.Hour}}}})
	for _, tt := range []struct {
		name    string
		limiter throttle.Limiter
		mode    throttle.OnOutage
		status  int
		policy  string
		reports int
	}{
		{"closed", away{}, throttle.Closed, 503, "", 1},
		{"closed by default", away{}, "", 503, "", 1},
		{"open", away{}, throttle.Open, 200, "", 1},
		{"unchecked", throttle.WithOutage(away{}, throttle.Open, throttle.OutageOptions{}), throttle.Closed, 200, `"all:gap";q=1;w=1, "all:5/1h";q=5;w=3600`, 0},
	} {
		var reported []error
		h := Middleware(tt.limiter, key, Options{
			OnError: tt.mode,
			Report:  func(_ *http.Request, err error) { reported = append(reported, err) },
		})(hello)
		got := get(h, "u")
		body, _ := io.ReadAll(got.Body)
		if got.StatusCode != tt.status || got.Header.Get("RateLimit-Policy") != tt.policy || got.Header.Get("RateLimit") != "" {
			t.Errorf("%s: %d %v", tt.name, got.StatusCode, got.Header)
		}
		if tt.status == 503 && (got.Header.Get("Retry-After") != "1" ||
			string(body) != `{"type":"about:blank","title":"Service Unavailable","status":503}`+"\n") {
			t.Errorf("%s: %v %s", tt.name, got.Header, body)
		}
		if len(reported) != tt.reports || len(reported) > 0 && !errors.Is(reported[0], throttle.ErrUnavailable) {
			t.Errorf("%s: reported %v", tt.name, reported)
		}
		if strings.Contains(string(body), "refused") {
			t.Errorf("%s: the client reads the error: %s", tt.name, body)
		}
	}
	// without a reporter
	if got := get(Middleware(away{}, key, Options{})(hello), "u"); got.StatusCode != 503 {
		t.Errorf("%d", got.StatusCode)
	}
}

func TestAdvertiseOmitsRateLimitWithoutRule(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	Advertise(h, []throttle.Scope{{Name: throttle.General, Policy: throttle.Policy{Rates: []throttle.Rate{{Count: 5, Period: time.Hour}}}}}, throttle.Decision{Status: throttle.Refused, Left: time.Second})
	if h.Get("RateLimit") != "" || h.Get("RateLimit-Policy") == "" {
		t.Error(h)
	}
	if p := over(throttle.Decision{Status: throttle.Refused}); p.Violated != nil {
		t.Errorf("%+v", p)
	}
}
