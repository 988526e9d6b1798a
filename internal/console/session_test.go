package console

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/api"
	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/config"
)

const (
	operatorToken = "operator-token-hunter2"
	viewerToken   = "viewer-token-hunter2"
	producerToken = "producer-token-hunter2"
)

func testTokens() []config.Token {
	return []config.Token{
		testToken("ada", config.Operator, operatorToken), testToken("wall", config.Viewer, viewerToken), testToken("shop", config.Producer, producerToken),
	}
}

// withTokens requires a sign-in with one of testTokens.
func withTokens(o *setting) { o.Tokens.Set(testTokens()) }

// withLog writes the console's log to log.
func withLog(log *eventually.Log) func(*setting) {
	return func(o *setting) { o.Log = slog.New(slog.NewTextHandler(log, nil)) }
}

// sessionKey returns the key of the only session.
func (r *rig) sessionKey() string {
	r.t.Helper()
	keys, err := r.client.Keys(r.t.Context(), "pushpace:session:*").Result()
	if err != nil || len(keys) != 1 {
		r.t.Fatalf("sessions: %q, %v", keys, err)
	}
	return keys[0]
}

// A sign-in leads to the requested page and lasts until the sign-out. The log and Redis hold
// neither the token nor the cookie's value.
func TestSessionLastsUntilSignOut(t *testing.T) {
	t.Parallel()
	var log eventually.Log
	r := newRig(t, withTokens, withLog(&log))
	to := r.get(http.StatusSeeOther, "/console/?done=signed-out")
	if to != "/console/signin?next=%2Fconsole%2F%3Fdone%3Dsigned-out" {
		t.Fatalf("leads to %s", to)
	}
	contains(t, r.get(http.StatusOK, to), `name="next" value="/console/?done=signed-out"`)
	leads(t, r.post(http.StatusSeeOther, signInPath, url.Values{"token": {" " + operatorToken + "\n"}, "next": {"/console/?done=signed-out"}}), "/console/?done=signed-out")
	contains(t, r.get(http.StatusOK, Path), "ada", signOutPath)
	leads(t, r.get(http.StatusSeeOther, signInPath+"?next=%2Fconsole%2Fpauses"), "/console/pauses")
	elsewhere := *r // a second process knows the session too
	elsewhere.console = New(r.setting.Options)
	elsewhere.get(http.StatusOK, Path)
	held, err := r.client.Get(t.Context(), r.sessionKey()).Result()
	must(t, err)
	id := r.cookie.Value
	for name, text := range map[string]string{"the log": log.String(), "Redis": r.sessionKey() + held} {
		if strings.Contains(text, id) || strings.Contains(text, "hunter2") {
			t.Errorf("%s holds a secret: %s", name, text)
		}
	}
	if to := r.post(http.StatusSeeOther, signOutPath, nil); to != "/console/signin?done=signed-out" || r.cookie != nil {
		t.Errorf("signed out, and leads to %s with %v", to, r.cookie)
	}
	r.cookie = &http.Cookie{Name: "pushpace", Value: id}
	r.get(http.StatusSeeOther, Path)
	elsewhere.get(http.StatusSeeOther, Path)
	if n := strings.Count(log.String(), "signed in"); n != 1 || strings.Count(log.String(), `msg="signed out" token=ada`) != 1 {
		t.Error(log.String())
	}
}

// A session expires after an hour without use, and twelve hours after its begin. Not every
// request writes.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens).as(viewerToken)
	key := r.sessionKey()
	left := func() time.Duration {
		t.Helper()
		d, err := r.client.PTTL(t.Context(), key).Result()
		must(t, err)
		return d
	}
	leave := func(d time.Duration) { r.client.PExpire(t.Context(), key, d) }
	age := func(d time.Duration) {
		t.Helper()
		var s session
		text, err := r.client.Get(t.Context(), key).Bytes()
		must(t, errors.Join(err, json.Unmarshal(text, &s)))
		s.Created = time.Now().Add(-d).UnixMicro()
		text, _ = json.Marshal(s)
		r.client.Set(t.Context(), key, text, redis.KeepTTL)
	}
	if got := left(); got <= sessionIdle-time.Minute || got > sessionIdle {
		t.Errorf("begins with %s", got)
	}
	leave(sessionIdle - 2*time.Minute)
	r.get(http.StatusOK, Path)
	if got := left(); got > sessionIdle-2*time.Minute {
		t.Errorf("a request wrote: %s", got)
	}
	leave(2 * time.Minute)
	r.get(http.StatusOK, Path)
	if got := left(); got <= sessionIdle-time.Minute || got > sessionIdle {
		t.Errorf("put off to %s", got)
	}
	age(sessionLife - 20*time.Minute)
	leave(time.Minute)
	r.get(http.StatusOK, Path)
	if got := left(); got <= 15*time.Minute || got > 20*time.Minute {
		t.Errorf("before its end put off to %s", got)
	}
	age(sessionLife)
	r.get(http.StatusSeeOther, Path)
	age(0)
	r.get(http.StatusOK, Path)
	r.client.Del(t.Context(), key) // the session expires
	r.get(http.StatusSeeOther, Path)
}

// A session has the rights that its token has now.
func TestSessionHasRightsOfChangedToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens)
	ada, wall := r.as(operatorToken), r.as(viewerToken)
	set := func(tokens ...config.Token) { r.setting.Tokens.Set(tokens) }
	set(testToken("ada", config.Viewer, operatorToken), testToken("west wall", config.Viewer, viewerToken))
	contains(t, ada.get(http.StatusOK, Path), "viewer") // not an operator any more
	contains(t, wall.get(http.StatusOK, Path), "west wall")
	set(testToken("ada", config.Producer, operatorToken), testToken("wall", config.Viewer, "another"))
	forbidden := ada.get(http.StatusForbidden, Path)
	contains(t, forbidden, "producer")
	lacks(t, forbidden, "<nav")
	ada.get(http.StatusOK, signInPath) // the redirect's target
	wall.get(http.StatusSeeOther, Path)
	set(testTokens()...) // the change is reverted
	ada.get(http.StatusOK, Path)
	wall.get(http.StatusOK, Path)
	r.enqueue(toUser("one", "ada", "news"))
	for app, want := range map[string]int{"mail": http.StatusNotFound, "shop": http.StatusOK} {
		token := testToken("ada", config.Operator, operatorToken)
		token.Apps = []string{app}
		set(token)
		ada.get(want, "/console/notifications/one")
	}
}

// The cookie does not authenticate API requests, and a bearer token does not open the console.
func TestCookieAuthenticatesOnlyConsole(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens).as(operatorToken)
	o := r.setting
	v1 := api.New(api.Options{HTTP: o.Config.HTTP, Tokens: o.Tokens, Service: o.Service, Meter: o.Meter, Log: o.Log})
	defer v1.Close()
	for _, header := range []string{"", "Bearer " + r.cookie.Value} {
		req := httptest.NewRequest(http.MethodGet, "/v1/audit", nil)
		req.AddCookie(r.cookie)
		if header != "" {
			req.Header.Set("Authorization", header)
		}
		recorder := httptest.NewRecorder()
		if v1.ServeHTTP(recorder, req); recorder.Code != http.StatusUnauthorized {
			t.Errorf("%q: the API answers %d", header, recorder.Code)
		}
	}
	r.cookie = nil
	req := httptest.NewRequest(http.MethodGet, Path, nil)
	req.Header.Set("Authorization", "Bearer "+operatorToken)
	r.do(http.StatusSeeOther, req)
}

// A cookie is Secure over TLS. A sign-in is refused if the token would travel unencrypted, or to a
// foreign host.
func TestSignInRequiresEncryptionOrLoopback(t *testing.T) {
	t.Parallel()
	const origin = "https://ops.example.com"
	r := newRig(t, withTokens, func(o *setting) { o.Config.HTTP.Console.Origin = origin })
	for name, c := range map[string]struct {
		host, origin string
		tls          bool
		want         string // the cookie; "" for a refusal
	}{
		"TLS":                        {"10.0.0.1:8443", "", true, "__Host-pushpace"},
		"the declared origin":        {"ops.example.com", origin, false, "__Host-pushpace"},
		"localhost":                  {"localhost:8080", "http://localhost:8080", false, "pushpace"},
		"::1":                        {"[::1]:8080", "http://[::1]:8080", false, "pushpace"},
		"an address":                 {"10.0.0.1:8080", "", false, ""},
		"another port of the origin": {"ops.example.com:8080", "", false, ""},
		"rebinding, looks like it":   {"localhost.rebound.example", "", false, ""},
		"a proxy that changes Host":  {"127.0.0.1:8080", "https://pages.example.com", false, ""},
	} {
		ask := func(method, path, body string, cookie *http.Cookie) *http.Response {
			req := sending(method, path, body)
			if req.Host = c.host; c.tls {
				req.TLS = new(tls.ConnectionState)
			}
			if c.origin != "" && method == http.MethodPost {
				req.Header.Set("Origin", c.origin)
			}
			if cookie != nil {
				req.AddCookie(cookie)
			}
			recorder := httptest.NewRecorder()
			r.console.ServeHTTP(recorder, req)
			return recorder.Result()
		}
		answer := ask(http.MethodPost, signInPath, url.Values{"token": {viewerToken}}.Encode(), nil)
		cookies := answer.Cookies()
		if c.want == "" {
			if answer.StatusCode != http.StatusForbidden || len(cookies) != 0 {
				t.Errorf("%s: %d, %v", name, answer.StatusCode, cookies)
			}
			if c.origin == "" {
				text, _ := io.ReadAll(ask(http.MethodGet, signInPath, "", nil).Body)
				contains(t, string(text), `href="https://ops.example.com/console/"`)
				lacks(t, string(text), "<input")
			}
			continue
		}
		if answer.StatusCode != http.StatusSeeOther || len(cookies) != 1 {
			t.Errorf("%s: %d, %v", name, answer.StatusCode, cookies)
			continue
		}
		got := cookies[0]
		if got.Name != c.want || got.Secure != (c.want != "pushpace") || !got.HttpOnly || got.Path != "/" || got.Domain != "" || got.SameSite != http.SameSiteLaxMode ||
			got.MaxAge != 12*60*60 || got.Value != url.QueryEscape(got.Value) || len(got.Value) != idLength {
			t.Errorf("%s: %v", name, got)
		}
		if answer := ask(http.MethodGet, Path, "", got); answer.StatusCode != http.StatusOK {
			t.Errorf("%s: with the cookie %d", name, answer.StatusCode)
		}
		other := &http.Cookie{Name: map[string]string{"pushpace": "__Host-pushpace", "__Host-pushpace": "pushpace"}[got.Name], Value: got.Value}
		if answer := ask(http.MethodGet, Path, "", other); answer.StatusCode != http.StatusSeeOther {
			t.Errorf("%s: with the other's name %d", name, answer.StatusCode)
		}
	}
	recorder, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, signInPath, nil)
	req.Host = "10.0.0.1:8080"
	newRig(t, withTokens).console.ServeHTTP(recorder, req)
	contains(t, recorder.Body.String(), "http.console.origin") // the page names the missing key
}

// Forms sent by another origin change nothing, with any session.
func TestForgedForms(t *testing.T) {
	t.Parallel()
	const origin = "https://ops.example.com"
	r := newRig(t, withTokens, func(o *setting) { o.Config.HTTP.Console.Origin = origin }).as(operatorToken)
	posts := slices.DeleteFunc(slices.Clone(routes), func(route route) bool { return route.method != http.MethodPost })
	if len(posts) < 2 {
		t.Fatal("there are no forms")
	}
	for _, post := range posts {
		for _, h := range []map[string]string{
			{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
			{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
			{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": "http://localhost:8081"},
		} {
			req := sending(http.MethodPost, filled(post.path), "token="+operatorToken)
			req.Header.Del("Sec-Fetch-Site")
			for name, value := range h {
				req.Header.Set(name, value)
			}
			contains(t, r.do(http.StatusForbidden, req), errForeign.title)
		}
	}
	r.get(http.StatusOK, Path) // still signed in
}

// A sign-in leads only to addresses of the console.
func TestSignInLeadsOnlyToConsole(t *testing.T) {
	t.Parallel()
	for next, want := range map[string]string{
		"/console/users/ada?app=shop&span=1h": "", "/console/users/a%2Fb": "", "/console/find?q=https://x": "", "/console/users/%E2%80%AE": "",
		"": Path, "/": Path, "/v1/audit": Path, "/consoles/": Path, "//evil.example/console/": Path, "https://evil.example/console/": Path,
		"javascript:alert(1)": Path, "/console/../v1/audit": Path, "/console/%2e%2e/v1/audit": Path, "/console/..%2f..%2f": Path, "/console//evil.example": Path,
		`/console/\evil.example`: Path, `\\evil.example`: Path, "/console/\r\nSet-Cookie: a=b": Path, "/console/\t": Path, " /console/pauses": Path,
		"/console/signin": Path, "/console/signout": Path, "/console/signin?next=/console/": Path, "/console/%zz": Path,
		"/console/find?q=" + strings.Repeat("x", maxNext): Path, "/console/pauses#x": "/console/pauses", "/console": Path,
	} {
		if want == "" {
			want = next
		}
		if got := inside(next); got != want {
			t.Errorf("%q: %q, want %q", next, got, want)
		}
	}
	r := newRig(t, withTokens)
	leads(t, r.post(http.StatusSeeOther, signInPath, url.Values{"token": {viewerToken}, "next": {"//evil.example/console/"}}), Path)
}

// Failed sign-ins are logged and counted without the token. Each address has its own limit of
// attempts.
func TestWrongTokensAreLimitedPerAddress(t *testing.T) {
	t.Parallel()
	var log eventually.Log
	r := newRig(t, withTokens, withLog(&log))
	for range 2 * attempts.AtOnce() { // valid tokens do not count
		r.as(viewerToken)
	}
	log.Take()
	for _, token := range []string{"", "hunter2", viewerToken + "x", strings.Repeat("x", 4000)} {
		contains(t, r.post(http.StatusUnauthorized, signInPath, url.Values{"token": {token}, "next": {"/console/pauses"}}), tokenUnknown, `value="/console/pauses"`)
	}
	contains(t, r.post(http.StatusForbidden, signInPath, url.Values{"token": {producerToken}}), "but not the console")
	r.post(http.StatusBadRequest, signInPath, url.Values{"token": {strings.Repeat("x", maxPublicForm)}})
	r.console.Close()
	if got := log.String(); strings.Count(got, "\n") != 3 || !strings.Contains(got, `status=401 token="" again=3`) || strings.Contains(got, "hunter2") {
		t.Error(got)
	}
	refused := false
	for range 3 * attempts.AtOnce() { // units return while seconds pass
		if refused = r.send(sending(http.MethodPost, signInPath, "token=guess")).StatusCode == http.StatusTooManyRequests; refused {
			break
		}
	}
	if !refused {
		t.Fatal("no attempt was one too many")
	}
	r.post(http.StatusTooManyRequests, signInPath, url.Values{"token": {operatorToken}})
	req := sending(http.MethodPost, signInPath, "token="+operatorToken)
	req.RemoteAddr = "198.51.100.7:1234"
	r.do(http.StatusSeeOther, req)
}

func TestAddressOf(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.1:1234": "192.0.2.1", "[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::/64", "[::ffff:192.0.2.1]:80": "192.0.2.1",
		"[fe80::1%eth0]:80": "fe80::/64", "pipe": "",
	} {
		if got := addressOf(remote); got != want {
			t.Errorf("%s: %q, want %q", remote, got, want)
		}
	}
}
