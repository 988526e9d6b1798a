//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// run runs the program to its end and answers what it has written.
func (s *site) run(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	p := start(t, s.setup, args...)
	if got := p.wait(t, 20*time.Second); got != want {
		t.Errorf("%s: exit status %d, want %d: %s", strings.Join(args, " "), got, want, &p.stderr)
	}
	return p.stdout.String(), p.stderr.String()
}

// An operator pauses a platform; what is for it waits, what is for the other
// flows; and after the resumption nothing is missing.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.simulate(t)
	workers := s.serve(t)
	apns := []string{"--app", "demo", "--platform", "apns"}
	s.run(t, exitDone, append([]string{"pause", "--for", "1h", "--by", "ada", "--reason", "a new certificate"}, apns...)...)
	workers.says(t, 1, "level=INFO", "paused by an operator", "app=demo platform=apns", "by=ada", `reason="a new certificate"`)
	var input strings.Builder
	for i := range 10 {
		input.WriteString(notification(fmt.Sprintf("held-%d", i), fmt.Sprintf("ada-%d", i), "chat", "apns", "00"))
		input.WriteString(notification(fmt.Sprintf("flows-%d", i), fmt.Sprintf("ben-%d", i), "chat", "fcm", "ben-pixel"))
	}
	s.send(t, exitDone, input.String())
	workers.until(t, "the other platform's", func() bool { return len(s.ledger(t)) == 10 })
	for _, e := range s.ledger(t) {
		if e.Platform != "fcm" {
			t.Errorf("%+v", e)
		}
	}
	out, _ := s.run(t, exitDone, "status", "held-0")
	if !strings.Contains(out, "waits for  apns of demo, paused by ada since ") || !strings.Contains(out, ": a new certificate; until ") {
		t.Errorf("status:\n%s", out)
	}
	var status control.Status
	out, _ = s.run(t, exitDone, "status", "held-0", "--json")
	if err := json.Unmarshal([]byte(out), &status); err != nil || len(status.Paused) != 1 || status.Paused[0].By != "ada" {
		t.Errorf("status: %s, %v", out, err)
	}
	var listed pause.Pause
	out, _ = s.run(t, exitDone, "pauses", "--json")
	if err := json.Unmarshal([]byte(out), &listed); err != nil || listed.Kind != pause.Operator || listed.Platform != "apns" || time.Until(listed.Until) < 59*time.Minute {
		t.Errorf("pauses: %s, %v", out, err)
	}
	if out, _ = s.run(t, exitDone, "pauses"); !strings.Contains(out, "KIND") || !strings.Contains(out, "  demo  ") || !strings.Contains(out, "a new certificate") {
		t.Errorf("pauses:\n%s", out)
	}

	if _, words := s.run(t, exitDone, append([]string{"resume", "--by", "ben"}, apns...)...); !strings.Contains(words, "ended: apns of demo, paused by ada since ") {
		t.Errorf("resumed: %s", words)
	}
	workers.until(t, "what was paused", func() bool { return len(s.ledger(t)) == 20 })
	workers.says(t, 1, "an operator's pause is over", "app=demo platform=apns", "ended_by=ben")
	if _, words := s.run(t, exitFailed, append([]string{"resume"}, apns...)...); !strings.Contains(words, "no pause of app demo, platform apns is in force") {
		t.Errorf("resumed again: %s", words)
	}
	if out, words := s.run(t, exitDone, "pauses"); out != "" || !strings.Contains(words, "Nothing is paused.") {
		t.Errorf("pauses: %s%s", out, words)
	}
	s.run(t, exitDone, "audit")
	s.stop(t, workers)
}

func TestPauseIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"say what: --app", []string{"pause"}},
		{"say what: --app", []string{"resume"}},
		{"--all excludes", []string{"pause", "--all", "--app", "demo"}},
		{"the app is not one of the configuration's apps: demo; did you mean demo?", []string{"pause", "--app", "deom"}},
		{"--platform: must be apns, fcm or webpush", []string{"pause", "--platform", "pigeon"}},
		{"--reason: must be UTF-8", []string{"pause", "--all", "--reason", strings.Repeat("x", 513)}},
		{"--for and --until", []string{"pause", "--all", "--for", "1h", "--until", "2030-01-01T00:00:00Z"}},
		{"--for: want a positive", []string{"pause", "--all", "--for", "-1h"}},
		{"--for: want a positive", []string{"pause", "--all", "--for", "0s"}},
		{"--until: want an instant", []string{"pause", "--all", "--until", "noon"}},
		{"--until: has passed", []string{"pause", "--all", "--until", "2020-01-01T00:00:00Z"}},
	} {
		if _, words := s.run(t, exitUsage, c.args...); !strings.Contains(words, c.want) {
			t.Errorf("%s: %s", strings.Join(c.args, " "), words)
		}
	}
	if out, _ := s.run(t, exitDone, "pauses", "--json"); out != "" {
		t.Errorf("something is paused: %s", out)
	}
	s.run(t, exitDone, "pause", "--all")
	s.send(t, exitDone, notification("one", "ada", "chat", "apns", "00"))
	if out, _ := s.run(t, exitDone, "status", "one"); !strings.Contains(out, "waits for  everything, paused by ") {
		t.Errorf("status:\n%s", out)
	}
}
