package main

import (
	"strings"
	"testing"
)

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
