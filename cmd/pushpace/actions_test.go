//go:build unix

package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/trail"
)

// What commands did, on Redis and through the API, is listed with who did it.
func TestActions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if _, stderr := s.run(t, exitDone, "actions"); stderr != "No action is kept.\n" {
		t.Errorf("of nothing: %q", stderr)
	}
	_, url := s.guardedAPI(t)
	remote := through(url, operatorToken)
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	s.run(t, exitDone, "limits", "set", "--user", "ada", "--rate", "10/1m", "--by", "ben")
	s.run(t, exitDone, "pause", "--app", "demo", "--category", "marketing", "--until", until, "--reason", "a new certificate", "--by", "ben")
	if got := ended(t, remote, "resume", "--app", "demo", "--category", "marketing"); got.status != exitDone {
		t.Errorf("%+v", got)
	}
	s.run(t, exitFailed, "cancel", "nobody")
	direct, api := ended(t, s.setup, "actions"), ended(t, remote, "actions")
	if direct != api {
		t.Errorf("Redis: %+v\nAPI:   %+v", direct, api)
	}
	want := []string{"WHEN WHO ACTION WHAT COUNT", "operator resumed app demo, category marketing 1",
		"ben paused app demo, category marketing until " + strings.Replace(until, "Z", ".000Z", 1) + ": 'a new certificate' 1", "ben set a limit user ada 1", ""}
	lines := strings.Split(direct.stdout, "\n")
	for i, line := range lines {
		line = regexp.MustCompile(" +").ReplaceAllString(line, " ")
		if _, after, _ := strings.Cut(line, "Z "); i > 0 && line != "" {
			line = after
		}
		if i >= len(want) || line != want[i] {
			t.Errorf("line %d: %q", i, line)
		}
	}
	var e trail.Entry
	out, _ := s.run(t, exitDone, "actions", "--limit", "1", "--json")
	if err := json.Unmarshal([]byte(out), &e); err != nil || e.Action != trail.Resume || e.By != "operator" || e.App != "demo" {
		t.Errorf("%s, %v", out, err)
	}
}
