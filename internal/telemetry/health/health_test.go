package health

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func get(t *testing.T, h http.Handler, path string) (int, Report) {
	t.Helper()
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	var report Report
	if recorder.Code == http.StatusOK || recorder.Code == http.StatusServiceUnavailable {
		if err := json.Unmarshal(recorder.Body.Bytes(), &report); err != nil {
			t.Fatalf("%s: %v", recorder.Body, err)
		}
		if got := recorder.Header().Get("Content-Type"); got != "application/json" {
			t.Errorf("Content-Type: %s", got)
		}
	}
	return recorder.Code, report
}

func fine(context.Context) string { return "" }

func TestReadinessNeedsStartAndChecks(t *testing.T) {
	t.Parallel()
	ended := func(context.Context) string { return "shop/apns: the certificate has ended" }
	for name, c := range map[string]struct {
		checks []Check
		stage  func(*Health)
		code   int
		want   Report
	}{
		"starting": {[]Check{{Name: "redis", Probe: fine}}, func(*Health) {}, 503, Report{"starting", []Result{{"redis", "ok", ""}}}},
		"ready":    {[]Check{{Name: "redis", Probe: fine}}, (*Health).Started, 200, Report{"ready", []Result{{"redis", "ok", ""}}}},
		"a check fails": {[]Check{{Name: "redis", Probe: fine}, {Name: "credentials", Probe: ended}}, (*Health).Started, 503,
			Report{"not ready", []Result{{"redis", "ok", ""}, {"credentials", "failed", "shop/apns: the certificate has ended"}}}},
		"a warning": {[]Check{{Name: "providers", Probe: fine, Warning: func(context.Context) string { return "fcm of shop is in trouble" }}}, (*Health).Started, 200,
			Report{"ready", []Result{{"providers", "warning", "fcm of shop is in trouble"}}}},
		"draining":   {[]Check{{Name: "redis", Probe: fine}}, func(h *Health) { h.Started(); h.Draining() }, 503, Report{"draining", []Result{{"redis", "ok", ""}}}},
		"no checks":  {nil, (*Health).Started, 200, Report{"ready", []Result{}}},
		"a late end": {[]Check{{Name: "credentials", Probe: ended}}, (*Health).Draining, 503, Report{"draining", []Result{{"credentials", "failed", "shop/apns: the certificate has ended"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := New(c.checks...)
			c.stage(h)
			code, got := get(t, h, "/readyz")
			if code != c.code || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%d %+v, want %d %+v", code, got, c.code, c.want)
			}
			if code, alive := get(t, h, "/healthz"); code != 200 || alive.Status != "alive" {
				t.Errorf("/healthz: %d %+v", code, alive)
			}
		})
	}
}

// A hanging check fails after its time-out. Requests share one probe, and the answer does not wait
// longer.
func TestHangingCheckFailsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var probes atomic.Int32
		release := make(chan struct{})
		h := New(Check{Name: "redis", Probe: func(context.Context) string { probes.Add(1); <-release; return "" }})
		h.Started()
		began := time.Now()
		var asked sync.WaitGroup
		for range 5 {
			asked.Go(func() {
				if code, got := get(t, h, "/readyz"); code != 503 || got.Checks[0] != (Result{"redis", "failed", "does not answer within 1s"}) {
					t.Errorf("%d %+v", code, got)
				}
			})
		}
		asked.Wait()
		if took := time.Since(began); took != probeTimeout {
			t.Errorf("took %s", took)
		}
		if n := probes.Load(); n != 1 {
			t.Errorf("%d probes", n)
		}
		close(release)
		synctest.Wait()
		if code, _ := get(t, h, "/readyz"); code != 200 {
			t.Errorf("%d after it is back", code)
		}
	})
}

// A result is reused for a second, and no longer.
func TestCheckResultIsReusedForSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		probes, wrong := 0, ""
		h := New(Check{Name: "redis", Probe: func(context.Context) string { probes++; return wrong }})
		h.Started()
		for range 10 {
			if code, _ := get(t, h, "/readyz"); code != 200 {
				t.Errorf("%d", code)
			}
		}
		if probes != 1 {
			t.Errorf("%d probes", probes)
		}
		wrong = "refuses the password"
		time.Sleep(probeFresh)
		if code, got := get(t, h, "/readyz"); code != 503 || got.Checks[0].Detail != wrong || probes != 2 {
			t.Errorf("%d %+v after %d probes", code, got, probes)
		}
	})
}
