package api

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/api/problems"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// canary is content that must not appear in the log.
const canary = "canary-4f1c"

// oneLine expects exactly one line in the log, with that status and without a secret.
func (r *rig) oneLine(status int, route, who string) {
	r.t.Helper()
	lines := r.logged()
	var line struct {
		Method, Route, Token, Remote string
		Status                       int
	}
	if len(lines) != 1 || json.Unmarshal([]byte(lines[0]), &line) != nil || line.Status != status || line.Route != route || line.Token != who || line.Remote == "" || line.Method == "" || strings.Contains(lines[0], canary) {
		r.t.Errorf("logged %q, want status %d, route %q, token %q", lines, status, route, who)
	}
}

// An invalid body is refused with a pointer to each fault. The log shows no part of it.
func TestInvalidBodyIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const rest = `,"targets":[{"platform":"fcm","token":"` + canary + `"}]}`
	for _, c := range []struct {
		name, body string
		pointers   []string
	}{
		{"none", "", []string{""}},
		{"cut off", `{"id":"` + canary, []string{""}},
		{"two values", notification("a", canary) + notification("b", canary), []string{""}},
		{"nothing in it", "{}", []string{"/app", "/user", "/targets"}},
		{"unknown fields", `{"app":"a","usr":"` + canary + `","user":"u","x/y~z":1` + rest, []string{"/usr", "/x~1y~0z"}},
		{"wrong types", `{"app":1,"user":{},"data":{"a":1},"ttl":"` + canary + `"` + rest, []string{"/app", "/data/a", "/ttl", "/user"}},
		{"a name twice", `{"app":"a","user":"u","us\u0065r":"` + canary + `","USER":"u"` + rest, []string{"/user", "/USER"}},
		{"values", `{"app":"a","user":"u\u0000","id":"é","priority":"now"` + rest, []string{"/id", "/user", "/priority"}},
		{"not UTF-8", "{\"app\":\"a\",\"user\":\"u\",\"category\":\"\xff\xfe\"" + rest, []string{""}},
		{"UTF-16", "\xff\xfe{\x00}\x00", nil},
		{"depth", strings.Repeat("[", 20_000), []string{""}},
		{"too large for a notification", `{"app":"a","user":"u","body":"` + strings.Repeat("x", push.MaxEncodedSize) + `"` + rest, []string{""}},
		{"an array and more", "[" + notification("a", canary) + "]1", []string{""}},
		{"bad items", `[1,{},null]`, []string{"/0", "/1/app", "/1/user", "/1/targets", "/2"}},
		{"too many", "[" + strings.Repeat("{},", 1000) + "{}]", []string{""}},
	} {
		req := request(producerToken, "POST", "/v1/notifications", c.body)
		req.Header.Set("Content-Type", "application/json") // also without a body
		p := r.send(http.StatusBadRequest, req, c.body).problem(t)
		if slices.ContainsFunc(p.Errors, func(f problems.Fault) bool { return f.Detail == "" || strings.Contains(f.Detail, canary) }) || !slices.Equal(pointers(p), c.pointers) {
			t.Errorf("%s: pointers %q, want %q: %+v", c.name, pointers(p), c.pointers, p.Errors)
		}
		r.oneLine(http.StatusBadRequest, "/v1/notifications", "shop")
	}
	if counts := r.counts(); counts.Accepted != 0 {
		t.Errorf("%+v", counts)
	}
}

// JSON in UTF-8 is accepted, with or without a byte order mark.
func TestContentTypeOtherThanJSONIsRefused(t *testing.T) {
	t.Parallel()
	for given, ok := range map[string]bool{
		"application/json": true, "Application/JSON;charset=\"utf-8\"": true, "application/json ; ": true, "application/json; charset=": true, "application/json; charset=us-ascii": true,
		"text/json": true, "application/vnd.shop.v1+json": true, "application/cloudevents+json; charset=utf_8": true,
		"": false, "text/plain": false, "application/x-ndjson": false, "text/plain; +json": false, "application/json; charset=utf-16": false, "application/json; charset=utf-8; charset=latin1": false, "application/jsonp": false,
	} {
		h := http.Header{}
		if given != "" {
			h.Set("Content-Type", given)
		}
		if got := typeFault(h); (got == "") != ok || !ok && !strings.HasSuffix(got, ": send application/json in UTF-8.") {
			t.Errorf("%q: %q", given, got)
		}
	}
	for encoding, fault := range map[string]string{"Identity": "", "gzip": `The body has the Content-Encoding "gzip": send it without one.`} {
		if got := typeFault(http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {encoding}}); got != fault {
			t.Errorf("%q: %q, want %q", encoding, got, fault)
		}
	}
	r := newRig(t)
	for kind, want := range map[string]int{"application/json": http.StatusAccepted, "text/plain": http.StatusUnsupportedMediaType} {
		// a byte order mark is accepted, although the document's validation refuses it
		body := "\ufeff[" + notification("two", "ada") + ",\r\n\ufeff" + notification("three", "ada") + "]"
		req := request(producerToken, "POST", "/v1/notifications:batch", body)
		req.Header.Set("Content-Type", kind)
		if recorder := r.serve(req); recorder.Code != want || want == http.StatusAccepted && !strings.Contains(recorder.Body.String(), `"three"`) {
			t.Errorf("%s: %d: %s", kind, recorder.Code, recorder.Body)
		}
	}
}

// Unknown paths and methods are refused, and the log shows no path.
func TestUnknownPathIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, path := range []string{
		"/", "//", "/v1/", "/v1/" + canary, "/v1/notifications/", "/v1/notifications/../audit", "/v1/notifications/..", "/v1//audit", "/v1/audit/", "/V1/audit",
		"/v1/notifications/a/" + canary, "/v1%2Faudit", "/v1/notifications/" + strings.Repeat("x", 5000), "/v1/users//timeline",
	} {
		req := request(operatorToken, "GET", "/", "")
		var err error
		req.URL, err = url.ParseRequestURI("http://example.com" + path)
		must(t, err)
		r.send(http.StatusNotFound, req, "")
		r.oneLine(http.StatusNotFound, "", "")
	}
	for request, allow := range map[string]string{"OPTIONS /v1/notifications": "POST, DELETE", "PUT /v1/notifications/a": "GET, HEAD, DELETE", canary + " /v1/audit": "GET, HEAD"} {
		method, path, _ := strings.Cut(request, " ")
		if got := r.do(http.StatusMethodNotAllowed, operatorToken, method, path, "").Header.Get("Allow"); got != allow {
			t.Errorf("%s: allows %q, want %q", request, got, allow)
		}
		if lines := r.logged(); len(lines) != 1 || strings.Contains(lines[0], canary) {
			t.Errorf("logged %q", lines)
		}
	}
	r.do(http.StatusNotFound, producerToken, "GET", "/v1/notifications/"+canary, "")
	r.oneLine(http.StatusNotFound, "/v1/notifications/{id}", "shop")
	r.do(http.StatusBadRequest, producerToken, "DELETE", "/v1/notifications/"+canary+"?"+canary, "")
	r.oneLine(http.StatusBadRequest, "/v1/notifications/{id}", "shop")
	r.do(http.StatusUnauthorized, canary, "GET", "/v1/audit", "")
	r.oneLine(http.StatusUnauthorized, "/v1/audit", "")
}

// Every route refuses a parameter that is given twice, even with the same value.
func TestRepeatedParameterIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tokens := map[config.Role]string{config.Producer: producerToken, config.Viewer: viewerToken, config.Operator: operatorToken}
	for _, route := range routes {
		path := strings.NewReplacer("{", "", "}", "").Replace(route.path)
		body := ""
		if route.takes {
			body = "{}"
		}
		for _, name := range route.query {
			if name == route.several {
				continue
			}
			p := r.do(http.StatusBadRequest, tokens[rolesOf(route)[0]], route.method, path+"?"+name+"=shop&"+name+"=shop", body).problem(t)
			if p.Detail != "The query's "+name+" must be given once." {
				t.Errorf("%s %s, %s twice: %+v", route.method, route.path, name, p)
			}
		}
	}
}

// A name with a space at its end looks like the name without it. An older version accepted
// such names, and their overrides can still be removed.
func TestNamesWithSpaceAtEndAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", "/v1/notifications", notification("one", "dup "), "ends in a space"},
		{"GET", "/v1/notifications/x%20", "", "The ID ends in a space"},
		{"GET", "/v1/users/dup/timeline?app=shop&category=b%20", "", "ends in a space"},
		{"PUT", "/v1/overrides?user=dup&category=news%20", `{"min_gap":"1s"}`, "The query's category must be a name: it ends in a space"},
		{"POST", "/v1/overrides/import", `{"overrides":[{"user":"dup ","min_gap":"1s"}]}`, "ends in a space"},
	} {
		if answer := r.do(http.StatusBadRequest, operatorToken, c.method, c.path, c.body); !strings.Contains(answer.text, c.want) {
			t.Errorf("%s %s: %s", c.method, c.path, answer.text)
		}
	}
	level := limits.Level{User: "dup"}
	must(t, r.options.Overrides.Set(t.Context(), limits.Override{Level: level, Policy: throttle.Policy{MinGap: 1e9}, By: "ann"}))
	key := "pushpace:{limits}:overrides"
	value, err := r.client.HGet(t.Context(), key, level.Key()).Result()
	must(t, err)
	level.User = "dup "
	must(t, r.client.HSet(t.Context(), key, level.Key(), value).Err())
	r.do(http.StatusNoContent, operatorToken, "DELETE", "/v1/overrides?user=dup%20", "")
	if left, err := r.client.HLen(t.Context(), key).Result(); err != nil || left != 1 {
		t.Errorf("%d are left, %v", left, err)
	}
}
