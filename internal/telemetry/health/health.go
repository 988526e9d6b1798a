// Package health answers an orchestrator's probes over HTTP: whether the process lives, and
// whether it is ready. Begin with Health.
package health

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// A Check is one condition of readiness.
type Check struct {
	// Name is the check's name in the answer.
	Name string
	// Probe returns the fault, or "". Everyone can read the fault: it must hold no secret. Probe
	// should return when ctx ends; the answer does not wait longer. Nil for a check that only
	// warns.
	Probe func(ctx context.Context) string
	// Warning is called if Probe finds no fault. It too returns a fault, or "", without a secret,
	// and should return when ctx ends. Its fault leaves the process ready. Nil for no warning.
	Warning func(ctx context.Context) string
}

// Health answers GET /healthz and GET /readyz. It is not ready before Started
// and after Draining. It is safe for concurrent use.
//
// /healthz answers 200 as long as the process can answer. /readyz answers 200 or
// 503, and in JSON the result of each check:
//
//	{"status":"not ready","checks":[{"name":"redis","state":"failed","detail":"does not answer"}]}
type Health struct {
	mux    *http.ServeMux
	checks []*check

	mu    sync.Mutex
	stage string // "" while the process serves
}

const (
	// A check that has not answered within probeTimeout has failed.
	probeTimeout = time.Second
	// probeFresh is the age up to which a check's result is reused, so that many requests cost
	// one probe.
	probeFresh = time.Second
)

// New returns a Health that is starting.
func New(checks ...Check) *Health {
	h := &Health{mux: http.NewServeMux(), stage: "starting"}
	for _, c := range checks {
		h.checks = append(h.checks, &check{Check: c})
	}
	h.mux.HandleFunc("GET /healthz", h.alive)
	h.mux.HandleFunc("GET /readyz", h.ready)
	return h
}

// Started marks the start as complete.
func (h *Health) Started() { h.set("") }

// Draining marks that the process takes no new work.
func (h *Health) Draining() { h.set("draining") }

func (h *Health) set(stage string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stage = stage
}

// ServeHTTP implements http.Handler.
func (h *Health) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

func (h *Health) alive(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	answer(w, http.StatusOK, map[string]string{"status": "alive"})
}

// A Result is a check's result.
type Result struct {
	Name   string `json:"name"`
	State  string `json:"state"` // ok, warning or failed
	Detail string `json:"detail,omitempty"`
}

// A Report is the answer of /readyz.
type Report struct {
	Status string   `json:"status"` // ready, starting, draining or not ready
	Checks []Result `json:"checks"`
}

func (h *Health) ready(w http.ResponseWriter, r *http.Request) {
	report := h.report(r.Context())
	status := http.StatusOK
	if report.Status != "ready" {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Cache-Control", "no-store")
	answer(w, status, report)
}

func (h *Health) report(ctx context.Context) Report {
	report := Report{Status: "ready", Checks: make([]Result, len(h.checks))}
	var asked sync.WaitGroup
	for i, c := range h.checks {
		asked.Go(func() { report.Checks[i] = c.result(ctx) })
	}
	asked.Wait()
	for _, c := range report.Checks {
		if c.State == "failed" {
			report.Status = "not ready"
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stage != "" {
		report.Status = h.stage
	}
	return report
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // it fails only if the client has gone
}

// A check is a Check with its last result.
type check struct {
	Check
	mu      sync.Mutex
	last    Result
	at      time.Time
	probing chan struct{} // closed when the probe under way is done; nil for none
}

// result returns the check's result, new or at most probeFresh old.
func (c *check) result(ctx context.Context) Result {
	c.mu.Lock()
	probing := c.probing
	if probing == nil && time.Since(c.at) < probeFresh {
		defer c.mu.Unlock()
		return c.last
	}
	if probing == nil {
		probing = make(chan struct{})
		c.probing = probing
		go c.probe(probing)
	}
	c.mu.Unlock()
	timer := time.NewTimer(probeTimeout)
	defer timer.Stop()
	select {
	case <-probing:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.last
	case <-timer.C:
	case <-ctx.Done():
	}
	return Result{c.Name, "failed", "does not answer within " + probeTimeout.String()}
}

// probe runs the check without the caller's context, because the first caller may leave.
func (c *check) probe(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	result := Result{c.Name, "ok", ""}
	if wrong := said(ctx, c.Probe); wrong != "" {
		result = Result{c.Name, "failed", wrong}
	} else if wrong := said(ctx, c.Warning); wrong != "" {
		result = Result{c.Name, "warning", wrong}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.at, c.probing = result, time.Now(), nil
	close(done)
}

func said(ctx context.Context, probe func(context.Context) string) string {
	if probe == nil {
		return ""
	}
	return probe(ctx)
}
