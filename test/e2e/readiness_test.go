//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/telemetry/health"
	"github.com/pushpace/pushpace/test/rig"
)

// A probe fails while Redis hangs, succeeds when Redis answers again, and fails when the process shuts
// down.
func TestReadiness(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := rig.SiteOn(t, server)
	s.Env = append(s.Env, "PUSHPACE_REDIS__TIMEOUT=500ms", "PUSHPACE_TELEMETRY__LISTEN=:0", "PUSHPACE_LOG__FORMAT=json")
	s.StandIns(t, 6*time.Second)
	workers := s.Serve(t)
	url := strings.TrimSuffix(regexp.MustCompile(`http://127\.0\.0\.1:\d+/metrics`).FindString(workers.Stderr.String()), "metrics")
	ready := func() (int, health.Report) {
		status, text := rig.Fetch(t, url+"readyz")
		var report health.Report
		if err := json.Unmarshal([]byte(text), &report); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return status, report
	}
	alive := func() {
		t.Helper()
		if status, text := rig.Fetch(t, url+"healthz"); status != http.StatusOK {
			t.Errorf("/healthz: %d %s", status, text)
		}
	}
	var status int
	var report health.Report
	// on a busy machine a check may fail, until the next one
	until := func(what string, f func() bool) {
		t.Helper()
		workers.Until(t, what, func() bool { status, report = ready(); return f() })
	}
	until("ready", func() bool { return status == http.StatusOK })
	if report.Status != "ready" || len(report.Checks) != 6 || report.Checks[0].Name != "redis" || report.Checks[1].Name != "credentials" || report.Checks[2].Name != "queue" {
		t.Errorf("%d %+v", status, report)
	}
	rig.Must(t, s.Client.HSet(t.Context(), "pushpace:losses", "at", 0, "pauses:w", 2).Err())
	until("a loss of data is a warning", func() bool { return status == http.StatusOK && report.Checks[5].State == "warning" })
	if c := report.Checks[5]; c.Name != "losses" || !strings.Contains(c.Detail, "Redis has lost data: 2 pauses") {
		t.Errorf("%+v", c)
	}
	rights := func(change string) {
		t.Helper()
		rig.Must(t, s.Client.Do(t.Context(), "ACL", "SETUSER", "default", change).Err())
	}
	rights("-@scripting")
	until("the queue alone is not ready", func() bool {
		return status == http.StatusServiceUnavailable && report.Checks[0].State == "ok" && report.Checks[2].State == "failed"
	})
	if report.Checks[2].Detail != "the worker gets no jobs from Redis" {
		t.Errorf("%+v", report)
	}
	rights("+@all")
	until("ready again", func() bool { return status == http.StatusOK })
	server.Pause(t)
	until("Redis is not ready", func() bool { return status == http.StatusServiceUnavailable && report.Checks[0].State == "failed" })
	if report.Checks[1].State != "ok" {
		t.Errorf("%+v", report)
	}
	alive()
	server.Resume(t)
	until("ready again", func() bool { return status == http.StatusOK })
	s.Send(t, rig.Notification("slow", "ada", "", "apns", "00fc"))
	workers.Until(t, "it is being sent", func() bool {
		_, text := rig.Fetch(t, url+"metrics")
		return strings.Contains(text, `pushpace_in_flight{app="demo",platform="apns"} 1`)
	})
	workers.Terminate(t)
	until("draining", func() bool { return report.Status == "draining" })
	if status != http.StatusServiceUnavailable {
		t.Errorf("%d", status)
	}
	alive()
	if got := workers.Wait(t); got != rig.Done {
		t.Errorf("exit status %d: %s", got, &workers.Stderr)
	}
	for line := range strings.Lines(workers.Stderr.String()) {
		var entry struct{ Time, Level, Msg string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Time == "" || entry.Level == "" || entry.Msg == "" {
			t.Errorf("a line of the log is no JSON of slog's: %s", line)
		}
	}
}

// An API without workers accepts notifications while the limits' Redis hangs, and reports that it is
// ready.
func TestReadinessWithoutLimitsRedis(t *testing.T) {
	t.Parallel()
	limits := redistest.Start(t)
	s := rig.NewSite(t)
	s.Env = append(s.Env, "PUSHPACE_TELEMETRY__LISTEN=:0", "PUSHPACE_HTTP__LISTEN=:0")
	s.Configure(t, "  # redis: {address: \"10.0.0.2:6379\"}", "  redis: {address: \""+limits.Addr()+"\"}")
	p := rig.Start(t, s.Setup, "serve", "--only", "api")
	p.Says(t, 1, "msg=serving")
	log := p.Stderr.String()
	url := regexp.MustCompile(`(http://127\.0\.0\.1:\d+/)metrics`).FindStringSubmatch(log)[1]
	api := regexp.MustCompile(`msg=api url=(http://127\.0\.0\.1:\d+)`).FindStringSubmatch(log)[1]
	limits.Pause(t)
	for range 3 {
		if status, text := rig.Fetch(t, url+"readyz"); status != http.StatusOK || strings.Contains(text, "limits_redis") {
			t.Fatalf("%d %s", status, text)
		}
		remote := &rig.Site{Setup: rig.Through(api, "")}
		remote.Send(t, rig.Notification("one", "ada", "", "apns", "00"))
	}
	limits.Resume(t)
	s.Stop(t, p)
}

// Readiness names a limits' Redis that answers but refuses the limiter's commands; the process
// stays ready.
func TestReadinessNamesCommandRefusedByLimitsRedis(t *testing.T) {
	t.Parallel()
	limits := redistest.Start(t)
	s := rig.NewSite(t)
	s.Env = append(s.Env, "PUSHPACE_TELEMETRY__LISTEN=:0")
	s.Configure(t, "  # redis: {address: \"10.0.0.2:6379\"}", "  redis: {address: \""+limits.Addr()+"\"}")
	workers := s.Serve(t)
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+/`).FindString(workers.Stderr.String())
	rights := func(change string) {
		t.Helper()
		rig.Must(t, limits.Client(t).Do(t.Context(), "ACL", "SETUSER", "default", change).Err())
	}
	rights("-zadd")
	s.Send(t, rig.Notification("one", "ada", "", "apns", "00fc"))
	named := regexp.MustCompile(`"name":"limits","state":"warning","detail":"cannot be checked since [0-9:]{8}: [^"]*(?:NOPERM|can.t run this command)`)
	workers.Until(t, "the refusal is named", func() bool {
		status, text := rig.Fetch(t, url+"readyz")
		return status == http.StatusOK && named.MatchString(text)
	})
	rights("+@all")
	workers.Until(t, "it is over", func() bool {
		status, text := rig.Fetch(t, url+"readyz")
		return status == http.StatusOK && strings.Contains(text, `"name":"limits","state":"ok"`)
	})
	s.Stop(t, workers)
}

// With an expired certificate the process is not ready, and the report names the certificate.
func TestReadinessWithExpiredCertificate(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	withKiosk := strings.Replace(string(pushpace.ConfigYAML), "\napps:\n", "\napps:\n  kiosk: {apns: {topic: com.example.kiosk, certificate_file: kiosk.pem}}\n", 1)
	s.Dir = rig.Write(t, "config.yaml", withKiosk)
	rig.WriteCertificate(t, filepath.Join(s.Dir, "kiosk.pem"), time.Now().Add(12*time.Second))
	s.Env = append(s.Env, "PUSHPACE_TELEMETRY__LISTEN=:0")
	workers := s.Serve(t)
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+/`).FindString(workers.Stderr.String())
	workers.Until(t, "not ready", func() bool {
		status, text := rig.Fetch(t, url+"readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(text, `"detail":"the certificate has ended: kiosk/apns"`)
	})
	s.Stop(t, workers)
}

// If one master of a Cluster is dead, the report names it, and every process is ready. If all masters
// are dead, no process is ready.
func TestReadinessOnCluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3, redistest.Args("--cluster-require-full-coverage", "no"))
	s := rig.SiteOn(t, nodes...)
	s.Env = append(s.Env, "PUSHPACE_TELEMETRY__LISTEN=:0")
	workers := s.Serve(t)
	url := strings.TrimSuffix(regexp.MustCompile(`http://127\.0\.0\.1:\d+/metrics`).FindString(workers.Stderr.String()), "metrics")
	until := func(what string, status int, says ...string) {
		t.Helper()
		workers.Until(t, what, func() bool {
			got, text := rig.Fetch(t, url+"readyz")
			_, told := rig.Fetch(t, url+"metrics")
			for _, s := range says {
				if !strings.Contains(text+told, s) {
					return false
				}
			}
			return got == status
		})
	}
	until("ready", http.StatusOK, `{"name":"redis","state":"ok"}`, "\npushpace_redis_up 1\n")
	for node := range nodes {
		nodes[node].Kill(t)
		until("one is named", http.StatusOK, `{"name":"redis","state":"warning","detail":"`+nodes[node].Addr()+` does not answer"}`,
			"\npushpace_redis_up 0\n", `pushpace_redis_trouble{reason="away",redis="redis"} 1`)
		nodes[node].Restart(t)
		until("it is back", http.StatusOK, `{"name":"redis","state":"ok"}`, `pushpace_redis_trouble{reason="away",redis="redis"} 0`)
	}
	for _, node := range nodes {
		node.Kill(t)
	}
	until("none is left", http.StatusServiceUnavailable, `{"name":"redis","state":"failed","detail":"does not answer"}`, "\npushpace_redis_up 0\n")
	log := workers.Stderr.String()
	for line, want := range map[string]int{"a node of Redis does not answer: what it holds is not reached, and waits": 3, "a node of Redis is well again": 3, "Redis is well again": 2, "Redis does not answer: nothing is accepted": 1} {
		if n := strings.Count(log, line); n < want {
			t.Errorf("%q %d times; want at least %d:\n%s", line, n, want, log)
		}
	}
}
