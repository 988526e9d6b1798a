//go:build unix

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/push"
)

// enqueueUnknown enqueues from Go, which knows no configuration, what ends as a
// dead letter: its app is not configured.
func (s *site) enqueueUnknown(t *testing.T, id, user string) {
	t.Helper()
	_, err := push.NewProducer(s.client, "", 0).Enqueue(t.Context(), &push.Notification{
		ID: id, App: "gone", User: user, Targets: []push.Target{{Platform: push.APNs, Token: "00"}}, Title: "t",
	})
	if err != nil {
		t.Fatal(err)
	}
}

// An app that is mistyped, or has no such provider, is refused at once with the
// near name, by the commands, the API, and the commands through the API.
func TestMistypedApp(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	file := filepath.Join(s.dir, "config.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	credentials := filepath.Join(s.dir, "service-account.json")
	kiosk := "\napps:\n  kiosk: {fcm: {credentials_file: " + credentials + "}}\n"
	for name, content := range map[string]string{file: strings.Replace(string(text), "\napps:\n", kiosk, 1), credentials: "{}"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, url := s.serveAPI(t, "--only", "api")
	mistyped := `"field":"/app","problem":"is not one of the configuration's apps: demo, kiosk; did you mean demo?"`
	without := `"field":"/targets/0/platform","problem":"is not one that the configuration gives the app"`
	for _, where := range []setup{s.setup, through(url, "")} {
		for _, c := range []struct {
			want string
			args []string
		}{
			{mistyped, []string{"--app", "dmeo", "--user", "u", "--apns", "00", "--title", "t"}},
			{mistyped, []string{"--app", "dmo", "--user", "u", "--apns", "00", "--title", "t"}},
			{without, []string{"--app", "kiosk", "--user", "u", "--apns", "00", "--title", "t"}},
		} {
			if got := ended(t, where, append([]string{"send"}, c.args...)...); got.status != exitFailed || !strings.Contains(got.stdout, c.want) {
				t.Errorf("%v: %+v", c.args, got)
			}
		}
		for _, args := range [][]string{{"pause", "--app", "dmeo"}, {"waiting", "--app", "dmeo"}, {"limits", "get", "--app", "dmeo"}, {"limits", "set", "--app", "dmeo", "--user", "u", "--rate", "1/1h"}} {
			if got := ended(t, where, args...); got.status != exitUsage || !strings.Contains(got.stderr, "did you mean demo?") {
				t.Errorf("%v: %+v", args, got)
			}
		}
		if got := ended(t, where, "timeline", "ada"); got.status != exitUsage || got.stderr != "pushpace: say which: --app demo or --app kiosk\n" {
			t.Errorf("%+v", got)
		}
		where.stdin = strings.NewReader(`{"app":"dmeo","rates":["1/1h"]}`)
		if got := ended(t, where, "limits", "import", "-"); got.status == exitDone || !strings.Contains(got.stderr, "did you mean demo?") {
			t.Errorf("%+v", got)
		}
	}
	body := strings.Replace(notification("one", "ada", "chat", "apns", "00"), `"demo"`, `"dmeo"`, 1)
	for _, body := range []string{body, "[" + body + "]"} {
		if status, text := ask(t, "", "POST", url+"/v1/notifications", body); status != http.StatusBadRequest || !strings.Contains(text, "did you mean demo?") {
			t.Errorf("%d: %s", status, text)
		}
	}
}

// A category that is mistyped is told of by the commands that it makes useless;
// by policy it is refused.
func TestMistypedCategory(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, url := s.serveAPI(t, "--only", "api")
	const odd = "pushpace: warning: category markting is not configured; did you mean marketing?\n"
	for _, where := range []setup{s.setup, through(url, "")} {
		for _, args := range [][]string{
			{"pause", "--category", "markting"}, {"limits", "set", "--category", "markting", "--rate", "1/1h"}, {"limits", "get", "--category", "markting"},
			{"waiting", "--category", "markting"}, {"cancel", "--all", "--category", "markting"}, {"timeline", "ada", "--category", "markting"},
		} {
			if got := ended(t, where, args...); got.status != exitDone || !strings.Contains(got.stderr, odd) {
				t.Errorf("%v: %+v", args, got)
			}
		}
		got := ended(t, where, "limits", "set", "--category", "security", "--rate", "3/1m")
		if got.status != exitDone || !strings.Contains(got.stderr, `category "security" was exempt: from now on its notifications wait`) {
			t.Errorf("%+v", got)
		}
		ended(t, where, "limits", "unset", "--category", "security")
		for _, args := range [][]string{{"pause", "--category", "marketing"}, {"limits", "set", "--category", "marketing", "--rate", "1/1h"}} {
			if got := ended(t, where, args...); got.status != exitDone || strings.Contains(got.stderr, "warning") {
				t.Errorf("%v: %+v", args, got)
			}
		}
	}
	send := []string{"send", "--app", "demo", "--user", "u", "--apns", "00", "--title", "t", "--category", "odrers"}
	const told, warning = `"warnings":["category odrers is not configured; did you mean orders?"]}` + "\n", "pushpace: warning: category odrers is not configured; did you mean orders?"
	for i, where := range []setup{s.setup, through(url, "")} {
		if got := ended(t, where, send...); got.status != exitDone || !strings.HasSuffix(got.stdout, told) || got.stderr != warning+"\n" {
			t.Errorf("%+v", got)
		}
		var file strings.Builder
		for j, category := range []string{"odrers", "orders", "odrers"} {
			file.WriteString(notification(fmt.Sprint(i, "-", j), "ada", category, "apns", "00"))
		}
		where.stdin = strings.NewReader(file.String())
		got := ended(t, where, "send", "--file", "-")
		if got.status != exitDone || strings.Count(got.stdout, "\n") != 3 || strings.Count(got.stdout, told) != 2 || !strings.HasPrefix(got.stderr, warning+" (2 notifications)\naccepted 3") {
			t.Errorf("%+v", got)
		}
	}
	s.env = append(s.env, "PUSHPACE_LIMITS__UNKNOWN_CATEGORY=refuse")
	_, url = s.serveAPI(t, "--only", "api")
	for _, where := range []setup{s.setup, through(url, "")} {
		if got := ended(t, where, send...); got.status != exitFailed || !strings.Contains(got.stdout, `"field":"/category","problem":"is not one of the configuration's; did you mean orders?"`) {
			t.Errorf("%+v", got)
		}
	}
}
