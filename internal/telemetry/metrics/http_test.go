package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHTTPCountsByRoute(t *testing.T) {
	t.Parallel()
	m := New(Sources{})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/notifications", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	mux.HandleFunc("GET /v1/notifications/{id}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "{}")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
	})
	mux.HandleFunc("GET /silent", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /panics", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("/", http.NotFound)
	mux.HandleFunc("/early", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusNotFound)
	})
	if (*Metrics)(nil).HTTP(mux) != http.Handler(mux) {
		t.Error("no metrics count something")
	}
	h := m.HTTP(mux)
	for _, target := range []string{
		"POST /v1/notifications", "POST /v1/notifications", "GET /v1/notifications/canary-1", "GET /v1/notifications/canary-2",
		"DELETE /v1/notifications/canary-3", "GET /canary-4", "CANARY /early", "GET /silent", "GET /panics",
	} {
		method, path, _ := strings.Cut(target, " ")
		func() {
			defer func() {
				if r := recover(); (r != nil) != (path == "/panics") {
					t.Errorf("%s: %v", target, r)
				}
			}()
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, path, nil))
		}()
	}
	text := scrape(t, m)
	hasLines(t, text,
		`pushpace_http_requests_total{method="POST",route="/v1/notifications",status="2xx"} 2`,
		`pushpace_http_requests_total{method="GET",route="/v1/notifications/{id}",status="2xx"} 2`,
		`pushpace_http_requests_total{method="DELETE",route="other",status="4xx"} 1`,
		`pushpace_http_requests_total{method="GET",route="other",status="4xx"} 1`,
		`pushpace_http_requests_total{method="other",route="/early",status="4xx"} 1`,
		`pushpace_http_requests_total{method="GET",route="/silent",status="2xx"} 1`,
		`pushpace_http_requests_total{method="GET",route="/panics",status="5xx"} 1`,
		`pushpace_http_request_seconds_count{method="GET",route="/v1/notifications/{id}"} 2`,
	)
	if strings.Contains(strings.ToLower(text), "canary") {
		t.Error("a client's word is a label")
	}
}
