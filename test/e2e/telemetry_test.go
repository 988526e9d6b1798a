//go:build e2e && unix

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/test/rig"
)

// What the workers do is told as metrics, without a word of whom they do it for.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	s.Simulate(t)
	s.Env = append(s.Env, "PUSHPACE_TELEMETRY__LISTEN=:0")
	s.Configure(t, rig.ShippedLimits, "default: {min_gap: 2s, rates: [10/1m]}")
	workers := s.Serve(t)
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+/metrics`).FindString(workers.Stderr.String())
	if url == "" {
		t.Fatalf("standard error: %s", &workers.Stderr)
	}
	var input strings.Builder
	for i := range 4 { // the last is put off
		input.WriteString(rig.Notification(fmt.Sprintf("n-%d", i), "canary-a", "canary-b", "apns", "5ec7e7"))
	}
	input.WriteString(rig.Notification("dead", "canary-c", "canary-b", "apns", "deaddead"))
	s.Send(t, rig.Done, input.String())
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	var text string
	has := func(pattern string) bool { return regexp.MustCompile("(?m)^" + pattern + "$").MatchString(text) }
	workers.Until(t, "four deliveries", func() bool {
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
	s.Stop(t, workers)
}

func TestMetricsOnATakenAddress(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	s.Env = append(s.Env, "PUSHPACE_TELEMETRY__LISTEN=:0")
	workers := s.Serve(t)
	address := regexp.MustCompile(`127\.0\.0\.1:\d+/`).FindString(workers.Stderr.String())
	s.Env = append(s.Env, "PUSHPACE_TELEMETRY__LISTEN="+strings.TrimSuffix(address, "/"))
	p := rig.Start(t, s.Setup, "serve")
	if got := p.Wait(t); got != rig.Failed || !strings.HasPrefix(p.Stderr.String(), "pushpace: telemetry.listen: ") || strings.Count(p.Stderr.String(), "\n") != 1 {
		t.Errorf("exit status %d: %s", got, &p.Stderr)
	}
	s.Stop(t, workers)
}
