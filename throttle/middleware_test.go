package throttle

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
)

// byUser limits the requests that name a user.
func byUser(scopes ...Scope) func(*http.Request) Request {
	return func(r *http.Request) Request {
		return Request{App: "shop", User: r.Header.Get("User"), Scopes: scopes}
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

func TestMiddleware(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	l := NewMemory(MemoryOptions{Now: func() time.Time { return now }})
	h := Middleware(l, byUser(
		Scope{General, Policy{MinGap: 1500 * time.Millisecond, Rates: []Rate{{2, time.Minute}}}},
		Scope{"añb", Policy{Rates: []Rate{{10, time.Hour}}}},
	), MiddlewareOptions{})(hello)

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
		// The denied ones left no trace.
		{40500 * time.Millisecond, "u1", 200, `"all:gap";r=0;t=2, "all:2/1m";r=0;t=60, "a%C3%B1b:10/1h";r=7;t=3600`, "", ""},
	} {
		now = now.Add(step.after)
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

func TestMiddlewarePassesWithoutAKey(t *testing.T) {
	t.Parallel()
	l := NewMemory(MemoryOptions{})
	one := Scope{General, Policy{Rates: []Rate{{1, time.Hour}}}}
	for name, h := range map[string]http.Handler{
		"no user":   Middleware(l, byUser(one), MiddlewareOptions{})(hello),
		"no scopes": Middleware(l, func(*http.Request) Request { return Request{User: "u"} }, MiddlewareOptions{})(hello),
	} {
		for range 3 {
			got := get(h, "")
			if got.StatusCode != 200 || got.Header.Get("RateLimit") != "" || got.Header.Get("RateLimit-Policy") != "" {
				t.Errorf("%s: %d %v", name, got.StatusCode, got.Header)
			}
		}
	}
	if n := l.Len(); n != 0 {
		t.Errorf("%d users have a timeline", n)
	}
}

func TestMiddlewareUnderConcurrency(t *testing.T) {
	t.Parallel()
	for backend, open := range map[string]func(*testing.T) Limiter{
		"memory": func(*testing.T) Limiter { return NewMemory(MemoryOptions{}) },
		"redis": func(t *testing.T) Limiter {
			l := NewRedis(redistest.Shared(t).Client(t), Options{Prefix: redistest.Prefix(), Timeout: 10 * time.Second})
			t.Cleanup(func() { _ = l.Close() })
			return l
		},
	} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			scope := Scope{General, Policy{Rates: []Rate{{5, time.Hour}}}}
			server := httptest.NewServer(Middleware(open(t), byUser(scope), MiddlewareOptions{})(hello))
			defer server.Close()
			var passed, denied atomic.Int64
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
					r.Header.Set("User", "u")
					got, err := server.Client().Do(r)
					if err != nil {
						t.Error(err)
						return
					}
					defer got.Body.Close()
					switch got.StatusCode {
					case 200:
						passed.Add(1)
					case 429:
						denied.Add(1)
					}
				})
			}
			wg.Wait()
			if passed.Load() != 5 || denied.Load() != 15 {
				t.Errorf("%d passed, %d denied; want 5 and 15", passed.Load(), denied.Load())
			}
		})
	}
}

func TestMiddlewareWhenTheLimiterFails(t *testing.T) {
	t.Parallel()
	s := &scriptedStore{}
	s.set(storeRefuses)
	key := byUser(Scope{General, Policy{MinGap: time.Second, Rates: []Rate{{5, time.Hour}}}})
	for _, tt := range []struct {
		name    string
		limiter Limiter
		mode    OnOutage
		status  int
		policy  string
		reports int
	}{
		{"closed", s, Closed, 503, "", 1},
		{"closed by default", s, "", 503, "", 1},
		{"open", s, Open, 200, "", 1},
		{"unchecked", WithOutage(s, Open, OutageOptions{}), Closed, 200, `"all:gap";q=1;w=1, "all:5/1h";q=5;w=3600`, 0},
	} {
		var reported []error
		h := Middleware(tt.limiter, key, MiddlewareOptions{
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
		if len(reported) != tt.reports || len(reported) > 0 && !errors.Is(reported[0], ErrUnavailable) {
			t.Errorf("%s: reported %v", tt.name, reported)
		}
		if strings.Contains(string(body), "refused") {
			t.Errorf("%s: the client reads the error: %s", tt.name, body)
		}
	}
	// without a reporter
	if got := get(Middleware(s, key, MiddlewareOptions{})(hello), "u"); got.StatusCode != 503 {
		t.Errorf("%d", got.StatusCode)
	}
}

func TestAdvertiseADenialWithoutARule(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	advertise(h, []Scope{{General, Policy{Rates: []Rate{{5, time.Hour}}}}}, Decision{Status: Refused, Left: time.Second})
	if h.Get("RateLimit") != "" || h.Get("RateLimit-Policy") == "" {
		t.Error(h)
	}
	if p := over(Decision{Status: Refused}); p.Violated != nil {
		t.Errorf("%+v", p)
	}
}
