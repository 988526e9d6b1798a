//go:build unix

package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/throttle"
)

// configure writes the site's configuration: the shipped one with a part of it
// replaced.
func (s *site) configure(t *testing.T, pairs ...string) {
	t.Helper()
	text := string(pushpace.ConfigYAML)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("the shipped configuration has no %q", pairs[i])
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	// as editors do, which leave no half-written file to be read
	if err := os.WriteFile(filepath.Join(s.dir, "next"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(s.dir, "next"), filepath.Join(s.dir, "config.yaml")); err != nil {
		t.Fatal(err)
	}
}

func (p *program) hangUp(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// says waits until the program has written a line with all the words n times.
func (p *program) says(t *testing.T, n int, words ...string) {
	t.Helper()
	p.until(t, strings.Join(words, ", "), func() bool { return p.said(words...) >= n })
}

func (p *program) said(words ...string) int {
	n := 0
lines:
	for line := range strings.Lines(p.stderr.String()) {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue lines
			}
		}
		n++
	}
	return n
}

const shippedLimits = "default: {min_gap: 1s, rates: [10/1m, 100/24h]}"

// A changed file takes effect without a restart, by itself and at SIGHUP; a bad
// one is refused, and the old one stays.
func TestReload(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.simulate(t)
	s.env = append(s.env, "PUSHPACE_TELEMETRY__LISTEN=:0")
	workers := s.serve(t)
	producer := *s // whose configuration stays good
	producer.dir = write(t, "config.yaml", string(pushpace.ConfigYAML))
	one := func(id string) {
		t.Helper()
		producer.send(t, exitDone, notification(id, "ada", "chat", "apns", "00"))
	}
	delivered := func(n int) func() bool { return func() bool { return len(s.ledger(t)) == n } }
	one("first")
	workers.until(t, "the first", delivered(1))

	s.configure(t, shippedLimits, "default: {rates: [2/1h]}", "    security: {exempt: true}\n", "    security: {exempt: true}\n    chat: {rates: [9/1h]}\n", "attempts: 10  ", "attempts: 12  ", "level: info ", "level: debug ")
	workers.says(t, 1, "level=INFO", "the configuration is reloaded", `changed="limits.default.min_gap: 1s → 0s, limits.default.rates: [10/1m, 100/24h] → [2/1h], limits.categories.chat: none → {rates: [9/1h]}, log.level: info → debug"`)
	workers.says(t, 1, "level=WARN", "take effect at the next start", `keys="worker.attempts: 10 → 12"`)
	one("second")
	workers.until(t, "the second", delivered(2))
	one("third")
	records := ledger.NewRecords(s.client, "", 0)
	workers.until(t, "the third waits for the new limit", func() bool {
		record, _, err := records.Lookup(t.Context(), ledger.Ref{ID: "third"})
		return err == nil && record.Rule == "2/1h"
	})
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	metrics := regexp.MustCompile(`http://127\.0\.0\.1:\d+/metrics`).FindString(workers.stderr.String())
	workers.until(t, "the metrics name the new category", func() bool {
		_, text := fetch(t, client, metrics)
		return strings.Contains(text, `pushpace_deferrals_total{app="demo",category="chat",rule="rate",scope="general"}`)
	})

	s.configure(t, shippedLimits, "default: {rates: [ten/1m]}")
	workers.hangUp(t)
	workers.says(t, 1, "level=ERROR", "the old one stays", "config.yaml:", "limits.default.rates[0]")
	_, text := fetch(t, client, metrics)
	if !strings.Contains(text, "pushpace_config_last_reload_successful 0\n") {
		t.Errorf("a refused reload is not in the metrics:\n%s", text)
	}
	one("fourth")
	workers.until(t, "the fourth waits for the limit that stays", func() bool {
		record, _, err := records.Lookup(t.Context(), ledger.Ref{ID: "fourth"})
		return err == nil && record.Rule == "2/1h"
	})

	s.configure(t)
	workers.hangUp(t)
	workers.says(t, 2, "the configuration is reloaded", "limits.default")
	if _, text := fetch(t, client, metrics); !strings.Contains(text, "pushpace_config_last_reload_successful 1\n") {
		t.Errorf("a reload is not in the metrics:\n%s", text)
	}
	s.send(t, exitDone, notification("another", "ben", "chat", "apns", "00"))
	workers.until(t, "another user's", delivered(3))
	if n := workers.said("the old one stays"); n != 1 {
		t.Errorf("the bad version is told of %d times", n)
	}
	if n := workers.said("at the next start"); n != 1 {
		t.Errorf("a restart is asked for %d times, though the key is as it was", n)
	}
	workers.hangUp(t)
	workers.says(t, 1, "the configuration is reloaded", "changed=none")
	s.stop(t, workers)
}

// A file that a start would refuse is refused while it runs too.
func TestReloadRefusesWhatCannotStart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	workers := s.serve(t)
	for i, c := range []struct{ old, new, want string }{
		{"apps:\n  demo: {simulated: true} ", "xapps:\n  demo: {simulated: true} ", "xapps"},
		{"  demo: {simulated: true} ", "  # ", "apps: there is none to send for"},
		{string(pushpace.ConfigYAML), "", "config.yaml: is empty"},
		{"  demo: {simulated: true} ", "  demo: {fcm: {credentials_file: config.yaml}} #", "apps.demo.fcm.credentials_file: "},
	} {
		s.configure(t, c.old, c.new) // and no hangup, which may or may not be the first to tell of it
		workers.says(t, 1, "level=ERROR", "the old one stays", c.want)
		if n := workers.said("the old one stays"); n != i+1 {
			t.Errorf("%d refusals, want %d", n, i+1)
		}
	}
	if err := os.Remove(filepath.Join(s.dir, "config.yaml")); err != nil {
		t.Fatal(err)
	}
	workers.says(t, 1, "level=ERROR", "the old one stays", "cannot be read")
	s.stop(t, workers)
}

// The API's tokens change while it runs.
func TestReloadTokens(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	hashed := func(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }
	tokens := func(token string) string {
		return fmt.Sprintf("http:\n  listen: 127.0.0.1:0\n  tokens: [{name: ops, role: viewer, sha256: %s}]\n", hashed(token))
	}
	s.configure(t, "http:\n", tokens("old-token-0123456789"))
	p := s.serve(t)
	if got := p.limitsStatus(t, "old-token-0123456789"); got != http.StatusOK {
		t.Fatalf("status %d", got)
	}
	s.configure(t, "http:\n", tokens("new-token-0123456789"))
	p.hangUp(t)
	p.says(t, 1, "the configuration is reloaded", "changed=http.tokens")
	if old, new := p.limitsStatus(t, "old-token-0123456789"), p.limitsStatus(t, "new-token-0123456789"); old != http.StatusUnauthorized || new != http.StatusOK {
		t.Errorf("the old token: %d, the new one: %d", old, new)
	}
	s.configure(t, "http:\n", "http:\n  listen: 127.0.0.1:0\n")
	p.hangUp(t)
	p.says(t, 1, "take effect at the next start", "http.tokens")
	if none, new := p.limitsStatus(t, ""), p.limitsStatus(t, "new-token-0123456789"); none != http.StatusUnauthorized || new != http.StatusOK {
		t.Errorf("once the last token is gone, without one: %d, with it: %d", none, new)
	}
	if out := p.stderr.String(); strings.Contains(out, "-token-") || strings.Contains(out, hashed("new-token-0123456789")) {
		t.Errorf("the log has a secret: %s", out)
	}
	s.stop(t, p)
}

// Tokens that a process has gained stay in force when the last one goes, as those do that
// it started with; while it takes requests from everyone, its log has said so.
func TestReloadKeepsTheLastToken(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const none, token = "http:\n  listen: 127.0.0.1:0\n", "gained-token-0123456789"
	some := none + fmt.Sprintf("  tokens: [{name: ops, role: viewer, sha256: %x}]\n", sha256.Sum256([]byte(token)))
	s.configure(t, "http:\n", none)
	p := s.serve(t)
	p.says(t, 1, "level=WARN", "takes requests from everyone")
	if got := p.limitsStatus(t, ""); got != http.StatusOK {
		t.Fatalf("status %d", got)
	}
	s.configure(t, "http:\n", some)
	p.hangUp(t)
	p.says(t, 1, "the configuration is reloaded", "http.tokens: [] → [ops (viewer)]")
	s.configure(t, "http:\n", none)
	p.hangUp(t)
	p.says(t, 1, "level=WARN", "take effect at the next start", "http.tokens: [ops (viewer)] → []")
	if without, with := p.limitsStatus(t, ""), p.limitsStatus(t, token); without != http.StatusUnauthorized || with != http.StatusOK {
		t.Errorf("once the last token is gone, without one: %d, with it: %d", without, with)
	}
	s.stop(t, p)
}

// What would not be safe beside what stays as it is waits for the next start.
func TestLiveParts(t *testing.T) {
	t.Parallel()
	s := new(system)
	start := new(config.Config)
	start.SetDefaults()
	start.HTTP.Listen = "0.0.0.0:80"
	parts := s.live(&configured{started: start})
	for name, c := range map[string]struct {
		key    string
		change func(*config.Config)
		want   bool
	}{
		"a period within the horizon":     {"limits.default.rates", func(c *config.Config) { c.Limits.Default.MinGap = time.Hour }, true},
		"a period beyond the old horizon": {"limits.default.rates", func(c *config.Config) { c.Limits.Horizon, c.Limits.Default.MinGap = 48*time.Hour, 30*time.Hour }, false},
		"a category's beyond the horizon": {"limits.categories.x", func(c *config.Config) {
			c.Limits.Categories = map[string]config.Category{"x": {Policy: throttle.Policy{MinGap: 30 * time.Hour}}}
		}, false},
		"no tokens for everyone": {"http.tokens", func(*config.Config) {}, false},
		"other tokens":           {"http.tokens", func(c *config.Config) { c.HTTP.Tokens = make([]config.Token, 1) }, true},
		"devices' rates":         {"limits.device.rates", func(*config.Config) {}, true},
		"the level":              {"log.level", func(*config.Config) {}, true},
	} {
		cfg := new(config.Config)
		cfg.SetDefaults()
		c.change(cfg)
		found := false
		for _, part := range parts {
			if part.has(c.key) {
				found = true
				if got := part.fits == nil || part.fits(cfg); got != c.want {
					t.Errorf("%s: %t", name, got)
				}
			}
		}
		if !found {
			t.Errorf("%s: no part has %s", name, c.key)
		}
	}
}

// docs/configuration.md says of every key whether it takes effect at once.
func TestThePageNamesTheLiveKeys(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	live := new(system).live(&configured{started: new(config.Config)})
	has := func(key string) bool {
		return slices.ContainsFunc(live, func(part *livePart) bool { return part.has(key) })
	}
	var rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]* \\| [^|]* \\| (at once|numbers|restart) \\|").FindAllStringSubmatch(string(page), -1) {
		key := strings.ReplaceAll(m[1], "[]", "[0]")
		rows = append(rows, key)
		want := "restart"
		if has(key) {
			want = "at once"
		} else if has(key + ".rate") {
			want = "numbers"
		}
		if m[2] != want {
			t.Errorf("%s: the page says %s, want %s", key, m[2], want)
		}
	}
	for _, part := range live {
		for _, key := range part.keys {
			key = strings.TrimSuffix(strings.ReplaceAll(key, ".*.", ".NAME."), ".*")
			if !slices.ContainsFunc(rows, func(row string) bool { return config.Within(strings.ReplaceAll(row, "[0]", ""), key) }) {
				t.Errorf("the page does not have %s", key)
			}
		}
	}
}
