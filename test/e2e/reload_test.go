//go:build e2e && unix

package e2e

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
)

// A changed configuration file takes effect without a restart, by itself and at SIGHUP. A bad file is
// refused, and the old configuration stays.
func TestReload(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	s.Simulate(t)
	s.Env = append(s.Env, "PUSHPACE_TELEMETRY__LISTEN=:0")
	workers := s.Serve(t)
	producer := *s // its configuration stays valid
	producer.Dir = rig.Write(t, "config.yaml", string(pushpace.ConfigYAML))
	one := func(id string) {
		t.Helper()
		producer.Send(t, rig.Notification(id, "ada", "chat", "apns", "00"))
	}
	delivered := func(n int) func() bool { return func() bool { return len(s.Ledger(t)) == n } }
	one("first")
	workers.Until(t, "the first", delivered(1))

	s.Configure(t, rig.ShippedLimits, "default: {rates: [2/1h]}", "    security: {exempt: true}\n", "    security: {exempt: true}\n    chat: {rates: [9/1h]}\n", "attempts: 10  ", "attempts: 12  ", "level: info ", "level: debug ")
	workers.Says(t, 1, "level=INFO", "the configuration is reloaded", `changed="limits.default.min_gap: 1s → 0s, limits.default.rates: [10/1m, 100/24h] → [2/1h], limits.categories.chat: none → {rates: [9/1h]}, log.level: info → debug"`)
	workers.Says(t, 1, "level=WARN", "take effect at the next start", `keys="worker.attempts: 10 → 12"`)
	one("second")
	workers.Until(t, "the second", delivered(2))
	one("third")
	records := store.NewRecords(s.Client, "", 0)
	workers.Until(t, "the third waits for the new limit", func() bool {
		record, _, err := records.Lookup(t.Context(), store.Ref{ID: "third"})
		return err == nil && record.Rule == "2/1h"
	})
	metrics := regexp.MustCompile(`http://127\.0\.0\.1:\d+/metrics`).FindString(workers.Stderr.String())
	workers.Until(t, "the metrics name the new category", func() bool {
		_, text := rig.Fetch(t, metrics)
		return strings.Contains(text, `pushpace_deferrals_total{app="demo",category="chat",rule="rate",scope="general"}`)
	})

	s.Configure(t, rig.ShippedLimits, "default: {rates: [ten/1m]}")
	workers.HangUp(t)
	workers.Says(t, 1, "level=ERROR", "the old one stays", "config.yaml:", "limits.default.rates[0]")
	_, text := rig.Fetch(t, metrics)
	if !strings.Contains(text, "pushpace_config_last_reload_successful 0\n") {
		t.Errorf("a refused reload is not in the metrics:\n%s", text)
	}
	one("fourth")
	workers.Until(t, "the fourth waits for the limit that stays", func() bool {
		record, _, err := records.Lookup(t.Context(), store.Ref{ID: "fourth"})
		return err == nil && record.Rule == "2/1h"
	})

	s.Configure(t)
	workers.HangUp(t)
	workers.Says(t, 2, "the configuration is reloaded", "limits.default")
	if _, text := rig.Fetch(t, metrics); !strings.Contains(text, "pushpace_config_last_reload_successful 1\n") {
		t.Errorf("a reload is not in the metrics:\n%s", text)
	}
	s.Send(t, rig.Notification("another", "ben", "chat", "apns", "00"))
	workers.Until(t, "a push to another user", func() bool { // waiting notifications may have been sent too
		record, _, err := records.Lookup(t.Context(), store.Ref{ID: "another"})
		return err == nil && record.State == push.Delivered
	})
	if n := workers.Said("the old one stays"); n != 1 {
		t.Errorf("the bad version is told of %d times", n)
	}
	if n := workers.Said("at the next start"); n != 1 {
		t.Errorf("a restart is asked for %d times, though the key is as it was", n)
	}
	workers.HangUp(t)
	workers.Says(t, 1, "the configuration is reloaded", "changed=none")
	s.Stop(t, workers)
}

// A running process refuses every configuration file that a starting process refuses.
func TestReloadRefusesInvalidConfiguration(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	workers := s.Serve(t)
	for i, c := range []struct{ old, new, want string }{
		{"apps:\n  demo: {simulated: true} ", "xapps:\n  demo: {simulated: true} ", "xapps"},
		{"  demo: {simulated: true} ", "  # ", "apps: there is none to send for"},
		{string(pushpace.ConfigYAML), "", "config.yaml: is empty"},
		{"  demo: {simulated: true} ", "  demo: {fcm: {credentials_file: config.yaml}} #", "apps.demo.fcm.credentials_file: "},
	} {
		s.Configure(t, c.old, c.new) // without SIGHUP, so that only the file watch notices the change
		workers.Says(t, 1, "level=ERROR", "the old one stays", c.want)
		if n := workers.Said("the old one stays"); n != i+1 {
			t.Errorf("%d refusals, want %d", n, i+1)
		}
	}
	rig.Must(t, os.Remove(filepath.Join(s.Dir, "config.yaml")))
	workers.Says(t, 1, "level=ERROR", "the old one stays", "cannot be read")
	s.Stop(t, workers)
}

// When the configuration loses its last token, the process keeps its current tokens, whether it started
// with them or got them by a reload. A process without tokens has logged that it serves everyone.
func TestReloadKeepsLastToken(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	const none, token = "http:\n  listen: 127.0.0.1:0\n", "gained-token-0123456789"
	some := none + fmt.Sprintf("  tokens: [{name: ops, role: viewer, sha256: %x}]\n", sha256.Sum256([]byte(token)))
	s.Configure(t, "http:\n", none)
	p, url := s.ServeAPI(t)
	status := func(token string) int {
		got, _ := rig.Ask(t, token, http.MethodGet, url+"/v1/limits", "")
		return got
	}
	p.Says(t, 1, "level=WARN", "takes requests from everyone")
	if got := status(""); got != http.StatusOK {
		t.Fatalf("status %d", got)
	}
	s.Configure(t, "http:\n", some)
	p.HangUp(t)
	p.Says(t, 1, "the configuration is reloaded", "http.tokens: none → [{name: ops, role: viewer, sha256: [hidden]}]")
	s.Configure(t, "http:\n", none)
	p.HangUp(t)
	p.Says(t, 1, "level=WARN", "take effect at the next start", "http.tokens: [{name: ops, role: viewer, sha256: [hidden]}] → none")
	if without, with := status(""), status(token); without != http.StatusUnauthorized || with != http.StatusOK {
		t.Errorf("once the last token is gone, without one: %d, with it: %d", without, with)
	}
	s.Stop(t, p)
	if strings.Contains(p.Stderr.String(), token) {
		t.Errorf("the log has a secret: %s", &p.Stderr)
	}
}
