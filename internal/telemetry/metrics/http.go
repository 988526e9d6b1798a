package metrics

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// HTTP counts next's answers by route. next is an http.ServeMux, which writes the route's pattern
// into the request: no handler in between may replace the request. A nil Metrics counts nothing.
func (m *Metrics) HTTP(next http.Handler) http.Handler {
	if m == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, method := time.Now(), r.Method
		answer := &answer{ResponseWriter: w}
		finished := false
		defer func() {
			if !finished && answer.status == 0 { // a panic
				answer.status = http.StatusInternalServerError
			}
			m.answered(r.Pattern, method, answer.status, time.Since(began))
		}()
		next.ServeHTTP(answer, r)
		finished = true
	})
}

func (m *Metrics) answered(pattern, method string, status int, took time.Duration) {
	_, route, ok := strings.Cut(pattern, " ")
	if !ok {
		route = pattern
	}
	if route == "" || route == "/" { // a request without a route of its own
		route = Other
	}
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
	default:
		method = Other
	}
	if status == 0 {
		status = http.StatusOK
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status/100)+"xx").Inc()
	m.answers.WithLabelValues(route, method).Observe(took.Seconds())
}

// An answer records the status.
type answer struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
