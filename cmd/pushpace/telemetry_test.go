//go:build unix

package main

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// What the workers do is told as metrics, without a word of whom they do it for.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.simulate(t)
	s.env = append(s.env, "PUSHPACE_TELEMETRY__LISTEN=:0")
	s.configure(t, shippedLimits, "default: {min_gap: 2s, rates: [10/1m]}")
	workers := s.serve(t)
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+/metrics`).FindString(workers.stderr.String())
	if url == "" {
		t.Fatalf("standard error: %s", &workers.stderr)
	}
	var input strings.Builder
	for i := range 4 { // the last is put off
		input.WriteString(notification(fmt.Sprintf("n-%d", i), "canary-a", "canary-b", "apns", "5ec7e7"))
	}
	input.WriteString(notification("dead", "canary-c", "canary-b", "apns", "deaddead"))
	s.send(t, exitDone, input.String())
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	var text string
	has := func(pattern string) bool { return regexp.MustCompile("(?m)^" + pattern + "$").MatchString(text) }
	workers.until(t, "four deliveries", func() bool {
		response, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		text = string(body)
		return has(`pushpace_ended_total\{state="delivered"\} 4`) && has(`pushpace_ended_total\{state="undeliverable"\} 1`)
	})
	for _, pattern := range []string{
		`pushpace_checks_total ([5-9]|\d\d)`,
		`pushpace_deferrals_total\{app="demo",category="other",rule="gap",scope="general"\} \d+`,
		`pushpace_lateness_seconds_count [1-9]`, // how many have a slot depends on how fast they are pulled
		`pushpace_attempts_total\{app="demo",kind="delivered",platform="apns",reason="ok"\} 4`,
		`pushpace_attempts_total\{app="demo",kind="dead_token",platform="apns",reason="\w+"\} 1`,
		`pushpace_breaker_open\{app="demo",platform="fcm"\} 0`,
		`pushpace_clock_offset_seconds \S+`,
		`pushpace_limiter_outages_total 0`,
		`pushpace_limiter_unchecked_total 0`,
	} {
		if !has(pattern) {
			t.Errorf("no %s", pattern)
		}
	}
	for _, secret := range []string{"canary", "5ec7e7", "deaddead", "pushpace_credential_expiry_seconds{"} {
		if strings.Contains(text, secret) {
			t.Errorf("it says %q", secret)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
	s.stop(t, workers)
}

func TestMetricsOnATakenAddress(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.env = append(s.env, "PUSHPACE_TELEMETRY__LISTEN=:0")
	workers := s.serve(t)
	address := regexp.MustCompile(`127\.0\.0\.1:\d+/`).FindString(workers.stderr.String())
	s.env = append(s.env, "PUSHPACE_TELEMETRY__LISTEN="+strings.TrimSuffix(address, "/"))
	p := start(t, s.setup, "serve")
	if got := p.wait(t, 15*time.Second); got != exitFailed || !strings.HasPrefix(p.stderr.String(), "pushpace: telemetry.listen: ") || strings.Count(p.stderr.String(), "\n") != 1 {
		t.Errorf("exit status %d: %s", got, &p.stderr)
	}
	s.stop(t, workers)
}
