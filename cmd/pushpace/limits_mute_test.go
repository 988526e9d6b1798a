//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
)

// A mute is foretold, confirmed where it is of more than one user, and shown; what waited
// ends, and what is new. It says the same through the API.
func TestLimitsMute(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, url := s.guardedAPI(t)
	remote := through(url, operatorToken)
	scheduled := func(id, user, category string) string {
		return strings.Replace(notification(id, user, category, "apns", "00"), `"title"`, `"not_before":"2099-01-01T00:00:00Z","title"`, 1)
	}
	critical := strings.Replace(scheduled("critical", "ada", ""), `"title"`, `"priority":"critical","title"`, 1)
	s.send(t, exitDone, scheduled("ada's", "ada", "orders")+scheduled("ada's offer", "ada", "marketing")+scheduled("bob's offer", "bob", "marketing")+
		scheduled("ada's code", "ada", "security")+critical)

	for _, with := range []setup{s.setup, remote} {
		for _, c := range []struct{ args, want string }{
			{"--user ada", "2"}, {"--user ada --all", "4"}, {"--user ada --category marketing", "1"}, {"--category marketing", "2"}, {"--app demo", "3"}, {"--user nobody", "0"},
		} {
			args := append(strings.Fields("limits mute --dry-run"), strings.Fields(c.args)...)
			if got := ended(t, with, args...); got.status != exitDone || got.stdout != c.want+" of those that wait would end.\n" || got.stderr != "Nothing was changed.\n" {
				t.Errorf("%s: %+v", c.args, got)
			}
		}
		for _, c := range []struct {
			want       int
			args, says string
		}{
			{exitUsage, "", "want --app, --user, --category"},
			{exitUsage, "--category marketing", "2 wait of category marketing: say --expect 2 to end them"},
			{exitFailed, "--category marketing --expect 3", "2 wait of category marketing, and not 3"},
			{exitFailed, "--user ada --expect 3", "2 wait for user ada, and not 3"},
			{exitUsage, "--user ada --for 1h --until 2099-01-01T00:00:00Z", "give one"},
		} {
			args := append(strings.Fields("limits mute"), strings.Fields(c.args)...)
			if got := ended(t, with, args...); got.status != c.want || !strings.Contains(got.stderr, c.says) {
				t.Errorf("%s: %+v", c.args, got)
			}
		}
	}
	if got := ended(t, remote, "limits", "mute", "--user", "ada", "--dry-run", "--json"); got.stdout != `{"user":"ada","mute":true,"would_end":2}`+"\n" {
		t.Errorf("%+v", got)
	}
	if got := ended(t, through(url, viewerToken), "limits", "mute", "--user", "ada"); got.status != exitFailed {
		t.Errorf("a viewer mutes: %+v", got)
	}
	if got := ended(t, s.setup, "limits", "list"); got.stderr != "Nothing is overridden.\n" {
		t.Errorf("%+v", got)
	}

	if got := ended(t, s.setup, "limits", "mute", "--category", "marketing", "--expect", "2", "--by", "ann"); got.status != exitDone || got.stderr != "For category marketing: muted.\n" {
		t.Errorf("%+v", got)
	}
	if got := ended(t, remote, "limits", "mute", "--user", "ada", "--all", "--until", "2099-01-01T00:00:00Z"); got.status != exitDone || got.stderr != "For user ada: muted, critical and exempt ones too until 2099-01-01T00:00:00.000Z.\n" {
		t.Errorf("%+v", got)
	}
	if got := ended(t, s.setup, "limits", "mute", "--user", "ada", "--category", "security"); !strings.Contains(got.stderr, "is exempt: its notifications pass") {
		t.Errorf("%+v", got)
	}
	if got := ended(t, remote, "limits", "get", "--user", "ada", "--category", "marketing"); !strings.Contains(got.stdout, "mute      muted, critical and exempt ones too  of the user") || !strings.Contains(got.stdout, "of the category") {
		t.Errorf("%+v", got)
	}
	if got := ended(t, s.setup, "limits", "list"); strings.Count(got.stdout, "\n") != 4 || !strings.Contains(got.stdout, "marketing  -      muted ") {
		t.Errorf("%+v", got)
	}
	exported := ended(t, s.setup, "limits", "export").stdout

	s.serve(t)
	records := ledger.NewRecords(s.client, "", 0)
	muted := func(n int64) {
		t.Helper()
		eventually.Holds(t, "they end muted", func() bool {
			counts, err := records.Counts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return counts.Ended[push.Muted] == n && counts.Waiting() == 0
		})
	}
	muted(5)
	s.send(t, exitDone, notification("new", "bob", "marketing", "apns", "00"))
	muted(6)
	if got := ended(t, remote, "status", "new"); !strings.Contains(got.stdout, "muted") {
		t.Errorf("%+v", got)
	}
	if got := ended(t, s.setup, "audit"); got.status != exitDone || !strings.Contains(got.stdout, "muted") {
		t.Errorf("%+v", got)
	}

	if got := ended(t, remote, "limits", "unmute", "--category", "marketing"); got.status != exitDone || got.stderr != "The mute of category marketing is gone.\n" {
		t.Errorf("%+v", got)
	}
	if got := ended(t, s.setup, "limits", "unmute", "--category", "marketing"); got.status != exitFailed || !strings.Contains(got.stderr, "there is no mute of category marketing") {
		t.Errorf("%+v", got)
	}
	with := s.setup
	with.stdin = strings.NewReader(exported)
	if got := ended(t, with, "limits", "import", "-"); got.status != exitDone || got.stderr != "3 are set.\n" {
		t.Errorf("%+v", got)
	}
	for line := range strings.Lines(ended(t, remote, "limits", "list", "--json").stdout) {
		var o limits.Override
		if err := json.Unmarshal([]byte(line), &o); err != nil || !o.Mute {
			t.Errorf("%s: %v", line, err)
		}
	}
	actions := ended(t, s.setup, "actions").stdout
	if !strings.Contains(actions, "unmuted") || !strings.Contains(actions, "muted   ") && !strings.Contains(actions, "muted  ") {
		t.Errorf("the trail says\n%s", actions)
	}
	if log := ended(t, s.setup, "limits", "log").stdout; !strings.Contains(log, "unset") || !strings.Contains(log, "muted") {
		t.Errorf("the log says\n%s", log)
	}
}
