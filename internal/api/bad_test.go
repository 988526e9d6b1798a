package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/push"
)

// canary stands for what no log may hold.
const canary = "canary-4f1c"

// oneLine expects that one line was logged, of that status, without a secret.
func (r *rig) oneLine(status int, route, who string) {
	r.t.Helper()
	lines := r.logged()
	if len(lines) != 1 {
		r.t.Errorf("logged %q, want one line", lines)
		return
	}
	var line struct {
		Method, Route, Token, Remote string
		Status                       int
	}
	if err := json.Unmarshal([]byte(lines[0]), &line); err != nil {
		r.t.Errorf("%v: %s", err, lines[0])
	}
	if line.Status != status || line.Route != route || line.Token != who || line.Remote == "" || line.Method == "" {
		r.t.Errorf("logged %s, want status %d, route %q, token %q", lines[0], status, route, who)
	}
	if strings.Contains(lines[0], canary) {
		r.t.Errorf("logged %s", lines[0])
	}
}

func TestBadBodies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const rest = `,"targets":[{"platform":"fcm","token":"` + canary + `"}]}`
	for _, c := range []struct {
		name, body string
		want       int
		pointers   []string
	}{
		{"none", "", http.StatusBadRequest, []string{""}},
		{"not JSON", canary, http.StatusBadRequest, []string{""}},
		{"cut off", `{"id":"` + canary, http.StatusBadRequest, []string{""}},
		{"two values", notification("a", canary) + notification("b", canary), http.StatusBadRequest, []string{""}},
		{"null", "null", http.StatusBadRequest, []string{""}},
		{"a text", `"` + canary + `"`, http.StatusBadRequest, []string{""}},
		{"a number", "1e999", http.StatusBadRequest, []string{""}},
		{"nothing in it", "{}", http.StatusBadRequest, []string{"/app", "/user", "/targets"}},
		{"unknown fields", `{"app":"a","usr":"` + canary + `","user":"u","x/y~z":1` + rest, http.StatusBadRequest, []string{"/usr", "/x~1y~0z"}},
		{"unknown field of a target", `{"app":"a","user":"u","targets":[{"platform":"fcm","tokens":"` + canary + `"}]}`, http.StatusBadRequest, []string{"/targets/0/tokens"}},
		{"wrong types", `{"app":1,"user":{},"badge":"1","data":{"a":1},"ttl":"` + canary + `","not_before":"tomorrow"` + rest, http.StatusBadRequest,
			[]string{"/app", "/badge", "/data/a", "/not_before", "/ttl", "/user"}},
		{"a name twice", `{"app":"a","user":"u","user":"` + canary + `"` + rest, http.StatusBadRequest, []string{"/user"}},
		{"a name twice in another case", `{"app":"a","user":"u","USER":"` + canary + `"` + rest, http.StatusBadRequest, []string{"/USER"}},
		{"a name twice, written otherwise", `{"app":"a","user":"u","us\u0065r":"` + canary + `"` + rest, http.StatusBadRequest, []string{"/user"}},
		{"a name twice in the data", `{"app":"a","user":"u","data":{"k":"","K":"","k":""}` + rest, http.StatusBadRequest, []string{"/data/k"}},
		{"a name twice in a target", `{"app":"a","user":"u","targets":[{"platform":"fcm","token":"t"},{"platform":"fcm","token":"a","token":"b"}]}`, http.StatusBadRequest, []string{"/targets/1/token"}},
		{"values", `{"app":"a","user":"u\u0000","id":"é","priority":"now"` + rest, http.StatusBadRequest, []string{"/id", "/user", "/priority"}},
		{"not UTF-8", "{\"app\":\"a\",\"user\":\"u\",\"category\":\"\xff\xfe\"" + rest, http.StatusBadRequest, []string{""}},
		{"depth", strings.Repeat("[", 20_000), http.StatusBadRequest, []string{""}},
		{"depth of a block", `{"app":"a","user":"u","apns":` + strings.Repeat(`{"a":`, 12_000) + "1" + strings.Repeat("}", 12_000) + rest, http.StatusBadRequest, []string{""}},
		{"too large for a notification", `{"app":"a","user":"u","body":"` + strings.Repeat("x", push.MaxEncodedSize) + `"` + rest, http.StatusBadRequest, []string{""}},
		{"too large for a payload", `{"app":"a","user":"u","body":"` + strings.Repeat("x", 5000) + `"` + rest, http.StatusBadRequest, []string{""}},
		{"huge", strings.Repeat(" ", 5<<20), http.StatusRequestEntityTooLarge, nil},
		{"nothing in an array", "[]", http.StatusBadRequest, []string{""}},
		{"a broken array", "[" + notification("a", canary) + ",", http.StatusBadRequest, []string{""}},
		{"an array and more", "[" + notification("a", canary) + "]1", http.StatusBadRequest, []string{""}},
		{"bad items", `[1,{},null]`, http.StatusBadRequest, []string{"/0", "/1/app", "/1/user", "/1/targets", "/2"}},
		{"too many", "[" + strings.Repeat("{},", 1000) + "{}]", http.StatusBadRequest, []string{""}},
	} {
		p := r.doJSON(c.want, c.body).problem(t)
		var pointers []string
		for _, f := range p.Errors {
			pointers = append(pointers, f.Pointer)
			if f.Detail == "" || strings.Contains(f.Detail, canary) {
				t.Errorf("%s: %+v", c.name, f)
			}
		}
		if !slices.Equal(pointers, c.pointers) {
			t.Errorf("%s: pointers %q, want %q: %+v", c.name, pointers, c.pointers, p.Errors)
		}
		r.oneLine(c.want, "/v1/notifications", "shop")
	}
	if counts := r.counts(); counts.Accepted != 0 {
		t.Errorf("%+v", counts)
	}
}

// doJSON posts a body, be it empty, as JSON.
func (r *rig) doJSON(want int, body string) *exchange {
	r.t.Helper()
	req := httptest.NewRequest("POST", "/v1/notifications", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+producerToken)
	return r.send(want, req, body)
}

// A body whose length nobody has said is bounded too.
func TestHugeChunkedBody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	req := httptest.NewRequest("POST", "/v1/notifications", strings.NewReader(strings.Repeat(" ", 5<<20)))
	req.ContentLength = -1
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+producerToken)
	r.send(http.StatusRequestEntityTooLarge, req, "")
	r.oneLine(http.StatusRequestEntityTooLarge, "/v1/notifications", "shop")
}

func TestContentTypes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, c := range []struct {
		kind, encoding string
		want           int
	}{
		{"application/json", "", http.StatusAccepted},
		{"application/json; charset=UTF-8", "identity", http.StatusAccepted},
		{"Application/JSON;charset=\"utf-8\"", "", http.StatusAccepted},
		{"", "", http.StatusUnsupportedMediaType},
		{"text/plain", "", http.StatusUnsupportedMediaType},
		{"application/json; charset=latin1", "", http.StatusUnsupportedMediaType},
		{"application/x-www-form-urlencoded", "", http.StatusUnsupportedMediaType},
		{"application/json", "gzip", http.StatusUnsupportedMediaType},
		{";;", "", http.StatusUnsupportedMediaType},
	} {
		body := notification(fmt.Sprintf("n-%d", i), "ada")
		req := httptest.NewRequest("POST", "/v1/notifications", strings.NewReader(body))
		if c.kind != "" {
			req.Header.Set("Content-Type", c.kind)
		}
		if c.encoding != "" {
			req.Header.Set("Content-Encoding", c.encoding)
		}
		req.Header.Set("Authorization", "Bearer "+producerToken)
		r.send(c.want, req, body)
	}
}

func TestBadPaths(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, path := range []string{
		"/", "//", "/v1", "/v1/", "/v1/" + canary, "/v1/notifications/", "/v1/notifications//", "/v1/notifications/../audit",
		"/v1/notifications/.", "/v1/notifications/..", "/v1/./audit", "/v1//audit", "/v1/audit/", "/V1/audit", "/v1/notifications/a/" + canary,
		"/v1%2Faudit", "/v1/notifications/%2E%2E/%2E%2E/" + canary, "/v1/notifications/" + strings.Repeat("x", 5000), "/openapi.json/", "/v1/users//timeline",
	} {
		req := httptest.NewRequest("GET", "/", nil)
		u, err := url.ParseRequestURI("http://example.com" + path)
		if err != nil {
			t.Fatal(err)
		}
		req.URL = u
		req.Header.Set("Authorization", "Bearer "+operatorToken)
		r.send(http.StatusNotFound, req, "")
		r.oneLine(http.StatusNotFound, "", "")
	}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, c := range []struct {
		method, path, allow string
	}{
		{"GET", "/v1/notifications", "POST"},
		{"HEAD", "/v1/notifications", "POST"},
		{"OPTIONS", "/v1/notifications", "POST"},
		{"PUT", "/v1/notifications/a", "GET, HEAD, DELETE"},
		{"PATCH", "/v1/audit", "GET, HEAD"},
		{"TRACE", "/v1/audit", "GET, HEAD"},
		{canary, "/v1/audit", "GET, HEAD"},
	} {
		answer := r.do(http.StatusMethodNotAllowed, operatorToken, c.method, c.path, "")
		if got := answer.Header.Get("Allow"); got != c.allow {
			t.Errorf("%s %s: allows %q, want %q", c.method, c.path, got, c.allow)
		}
		if lines := r.log.lines(); len(lines) != 1 || strings.Contains(lines[0], canary) {
			t.Errorf("logged %q", lines)
		}
	}
}

// What is in a path is in no log.
func TestPathsAreNotLogged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, method := range []string{"GET", "DELETE"} {
		r.do(http.StatusNotFound, producerToken, method, "/v1/notifications/"+canary, "")
		r.oneLine(http.StatusNotFound, "/v1/notifications/{id}", "shop")
		r.do(http.StatusBadRequest, producerToken, method, "/v1/notifications/"+canary+"?"+canary, "")
		r.oneLine(http.StatusBadRequest, "/v1/notifications/{id}", "shop")
	}
	r.do(http.StatusBadRequest, producerToken, "POST", "/v1/notifications?dry_run=true", notification("one", "ada"))
	r.oneLine(http.StatusBadRequest, "/v1/notifications", "shop")
	r.do(http.StatusNotFound, operatorToken, "POST", "/v1/dead-letters/"+canary+"/requeue", "")
	r.oneLine(http.StatusNotFound, "/v1/dead-letters/{id}/requeue", "ada")
	r.do(http.StatusUnauthorized, canary, "GET", "/v1/audit", "")
	r.oneLine(http.StatusUnauthorized, "/v1/audit", "")
}
