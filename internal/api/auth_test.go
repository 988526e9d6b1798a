package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, header := range []string{
		"", "Bearer", "Bearer ", "Basic " + viewerToken, viewerToken, "Bearer " + viewerToken + "x", "Bearer " + viewerToken[1:],
		"Bearer " + strings.Repeat("x", 8000), "Bearer a b", "Bearer \x00",
	} {
		req := httptest.NewRequest("GET", "/v1/audit", nil)
		if header != "" {
			req.Header["Authorization"] = []string{header}
		}
		answer := r.send(http.StatusUnauthorized, req, "")
		says := "Send a token: Authorization: Bearer TOKEN."
		if bearer(req) != nil {
			says = "This token is not known."
		}
		if p := answer.problem(t); p.Detail != says {
			t.Errorf("%q: %q", header, p.Detail)
		}
		if answer.Header.Get("WWW-Authenticate") != `Bearer realm="pushpace"` || r.api.Knows(req) {
			t.Errorf("%q: %v, known %t", header, answer.Header, r.api.Knows(req))
		}
	}
	twice := httptest.NewRequest("GET", "/v1/audit", nil)
	twice.Header["Authorization"] = []string{"Bearer " + viewerToken, "Bearer " + operatorToken}
	r.send(http.StatusUnauthorized, twice, "")
	for _, header := range []string{"Bearer " + viewerToken, "bearer  " + viewerToken} {
		req := httptest.NewRequest("GET", "/v1/audit", nil)
		req.Header.Set("Authorization", header)
		if r.send(http.StatusOK, req, ""); !r.api.Knows(req) {
			t.Errorf("%q is not known", header)
		}
	}
}

// Without tokens this machine may do everything, except pages of other origins
// in its browsers.
func TestWithoutTokensOnlyThisMachineIsAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *rigOptions) { o.HTTP.Tokens = nil })
	for _, c := range []struct {
		host   string
		header map[string]string
		want   int
	}{
		{"localhost:8080", nil, http.StatusNotFound},
		{"[::1]:8080", nil, http.StatusNotFound},
		{"rebound.example:8080", nil, http.StatusForbidden},
		{"", nil, http.StatusForbidden},
		{"localhost:8080", map[string]string{"Sec-Fetch-Site": "cross-site"}, http.StatusForbidden},
		{"localhost:8080", map[string]string{"Origin": "https://evil.example"}, http.StatusForbidden},
		{"localhost:8080", map[string]string{"Origin": "http://localhost:8080"}, http.StatusNotFound},
	} {
		req := httptest.NewRequest("POST", "/v1/dead-letters/none/requeue", nil)
		req.Host = c.host
		for name, value := range c.header {
			req.Header.Set(name, value)
		}
		r.send(c.want, req, "")
	}
}
