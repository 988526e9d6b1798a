//go:build unix

package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// The tokens of a site's API.
const (
	operatorToken = "operator-hunter2"
	viewerToken   = "viewer-hunter2"
)

// guardedAPI starts a process that answers the API to those with a token, and
// answers its URL.
func (s *site) guardedAPI(t *testing.T) (*program, string) {
	t.Helper()
	file := filepath.Join(s.dir, "config.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tokens := "\nhttp:\n  tokens:\n"
	for role, token := range map[string]string{"operator": operatorToken, "viewer": viewerToken} {
		tokens += fmt.Sprintf("    - {name: %s, role: %s, sha256: %x}\n", role, role, sha256.Sum256([]byte(token)))
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "\nhttp:\n", tokens, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return s.serveAPI(t, "--only", "api")
}

// through is how a program goes through the API at that URL: it has nothing else.
func through(url, token string) setup {
	return setup{env: []string{"PUSHPACE_API=" + url, "PUSHPACE_API_TOKEN=" + token}}
}

// said is what a program printed, and how it ended.
type said struct {
	status         int
	stdout, stderr string
}

func ended(t *testing.T, s setup, args ...string) said {
	t.Helper()
	p := start(t, s, args...)
	return said{p.wait(t, 20*time.Second), p.stdout.String(), p.stderr.String()}
}

// Every command says the same through the API as it does on Redis.
func TestTheAPISaysTheSame(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.simulate(t)
	workers := s.serve(t)
	_, url := s.guardedAPI(t)
	remote := through(url, operatorToken)
	same := func(args ...string) said {
		t.Helper()
		direct, api := ended(t, s.setup, args...), ended(t, remote, args...)
		if direct != api {
			t.Errorf("%v\nRedis: %+v\nAPI:   %+v", args, direct, api)
		}
		return direct
	}
	s.enqueueUnknown(t, "bad-1", "cid")
	s.enqueueUnknown(t, "bad-2", "dan")
	input := ""
	for i := range 3 {
		input += notification(fmt.Sprintf("news-%d", i), "ada", "marketing", "fcm", "ada-pixel")
	}
	s.send(t, exitDone, input)
	waiting := func() (ids []string) {
		for i := range 3 {
			id := fmt.Sprintf("news-%d", i)
			if strings.Contains(ended(t, s.setup, "status", id, "--json").stdout, `"rule":"1/24h"`) {
				ids = append(ids, id)
			}
		}
		return ids
	}
	workers.until(t, "one that is delivered, two that wait and two dead letters", func() bool {
		counts, err := ledger.NewRecords(s.client, "", 0).Counts(t.Context())
		return err == nil && counts.Ended[push.Delivered] == 1 && len(waiting()) == 2 && strings.Count(ended(t, s.setup, "dead", "list", "--json").stdout, "\n") == 2
	})
	waits := waiting()

	if got := same("status", waits[0], "--json"); got.status != exitDone {
		t.Errorf("%+v", got)
	}
	same("status", "bad-1")
	dry := []string{"limits", "set", "--user", "ada", "--category", "marketing", "--rate", "1/23h", "--dry-run"}
	if got := same(dry...); got.status != exitDone || got.stderr != "Nothing was changed.\n" || !strings.Contains(got.stdout, "2 of 2 that wait would leave sooner; none later.") ||
		!strings.Contains(got.stdout, "then  1/23h  from the override of the user and category") || strings.Count(got.stdout, "  marketing  20") != 2 {
		t.Errorf("%+v", got)
	}
	same("limits", "set", "--app", "demo", "--rate", "1/23h", "--dry-run")
	same("limits", "set", "--rate", "1/23h", "--dry-run")
	same("limits", "unset", "--user", "ada", "--dry-run")
	same("audit")
	same("audit", "--json")
	same("dead", "show", "bad-1")
	direct, api := ended(t, s.setup, "dead", "list"), ended(t, remote, "dead", "list")
	if sorted(direct.stdout) != sorted(api.stdout) || direct.status != exitDone || api.status != exitDone {
		t.Errorf("dead list\nRedis: %+v\nAPI:   %+v", direct, api)
	}
	for _, args := range [][]string{{"status", "nobody"}, {"cancel", "nobody"}, {"cancel", "bad-1"}, {"dead", "show", "nobody"},
		{"dead", "requeue", "nobody", "a/b"}, {"dead", "purge", "nobody"}} {
		if got := same(args...); got.status != exitFailed || got.stderr == "" {
			t.Errorf("%v: %+v", args, got)
		}
	}
	var timelines [2]map[string]any
	for i, where := range []setup{s.setup, remote} {
		if err := json.Unmarshal([]byte(ended(t, where, "timeline", "ada", "--json").stdout), &timelines[i]); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"now", "scopes"} { // which go on
			delete(timelines[i], key)
		}
	}
	if len(timelines[0]["bookings"].([]any)) != 2 || fmt.Sprint(timelines[0]) != fmt.Sprint(timelines[1]) {
		t.Errorf("timelines\nRedis: %v\nAPI:   %v", timelines[0], timelines[1])
	}

	for _, args := range [][]string{{"cancel", waits[0]}, {"dead", "purge", "bad-2"}} {
		if got := ended(t, remote, args...); got.status != exitDone || got.stdout != "" || !strings.HasSuffix(got.stderr, map[string]string{"cancel": " is cancelled.\n", "dead": "1 purged.\n"}[args[0]]) {
			t.Errorf("%v: %+v", args, got)
		}
	}
	same("status", waits[0])
	same("dead", "list")
	if got := ended(t, remote, "dead", "requeue", "bad-1"); got != (said{stderr: "1 requeued.\n"}) {
		t.Errorf("requeue: %+v", got)
	}
	s.stop(t, workers)
}

func sorted(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// send says the same of each line, and of what is refused.
func TestSendThroughTheAPI(t *testing.T) {
	t.Parallel()
	direct, s := newSite(t), newSite(t)
	_, url := s.guardedAPI(t)
	remote := &site{setup: through(url, operatorToken)}
	input := notification("good-1", "ada", "chat", "apns", "00") +
		notification("good-1", "ada", "chat", "apns", "00") +
		"not JSON\n\n" +
		`{"app":"demo","user":"","targets":[]}` + "\n" +
		notification("bad-2", "ada", "chat", "pigeon", "00") +
		notification("good-2", "ben", "chat", "apns", "00")
	want, got := direct.send(t, exitFailed, input), remote.send(t, exitFailed, input)
	if !reflect.DeepEqual(want, got) || len(got) != 6 {
		t.Errorf("Redis: %+v\nAPI:   %+v", want, got)
	}
	flags := []string{"send", "--id", "one", "--app", "demo", "--user", "ada", "--apns", "00", "--title", "Hello", "--ttl", "1h"}
	if got := ended(t, remote.setup, flags...); got != (said{stdout: `{"id":"one","known":false}` + "\n"}) {
		t.Errorf("%+v", got)
	}
	if got := ended(t, remote.setup, "send", "--app", "demo"); got.status != exitFailed || !strings.Contains(got.stdout, `"field":"/user"`) || strings.Contains(got.stdout, `"id"`) {
		t.Errorf("%+v", got)
	}
	if counts, err := ledger.NewRecords(s.client, "", 0).Counts(t.Context()); err != nil || counts.Accepted != 3 {
		t.Errorf("%+v, %v", counts, err)
	}
}

// The API's answers that are lost, and its requests to come again later, cost
// nothing but time: each line is taken once, each user's in the file's order.
func TestSendThroughATroubledAPI(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, at := s.guardedAPI(t)
	target, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(target)
	trouble := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch requests.Add(1) {
		case 2:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		case 4:
			proxy.ServeHTTP(httptest.NewRecorder(), r) // it is taken, and nobody hears of it
			panic(http.ErrAbortHandler)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(trouble.Close)
	var input strings.Builder
	const lines = 5000
	for i := range lines {
		input.WriteString(notification(fmt.Sprintf("n-%04d", i), fmt.Sprintf("user-%d", i%20), "chat", "apns", "00"))
	}
	remote := &site{setup: through(trouble.URL, operatorToken)}
	results := remote.send(t, exitDone, input.String())
	if len(results) != lines || requests.Load() < 6 {
		t.Errorf("%d lines in %d requests", len(results), requests.Load())
	}
	ids, err := s.client.LRange(t.Context(), "asynq:{"+push.Default.Queue()+"}:pending", 0, -1).Result()
	if err != nil || len(ids) != lines {
		t.Fatalf("%d jobs, %v", len(ids), err)
	}
	slices.Reverse(ids)
	last := map[int]string{}
	for _, id := range ids {
		n, err := strconv.Atoi(strings.TrimPrefix(id, "n-"))
		if err != nil {
			t.Fatal(err)
		}
		if id < last[n%20] {
			t.Fatalf("%s is after %s", id, last[n%20])
		}
		last[n%20] = id
	}
}

// When the API is gone for good, what was not handed over is said so, and
// sending the file again is all there is to do.
func TestSendWhileTheAPIGoes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p, url := s.guardedAPI(t)
	remote := &site{setup: through(url, operatorToken)}
	s.stop(t, p)
	results := remote.send(t, exitFailed, notification("one", "ada", "chat", "apns", "00"))
	if r := results[1]; r.ID != "one" || r.Error == "" || r.Known != nil {
		t.Errorf("%+v", results)
	}
}

// Who may not, or comes with a token that is none, is told so; no token shows.
func TestTheAPIsTokens(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, url := s.guardedAPI(t)
	file := filepath.Join(write(t, "token", viewerToken+"\n"), "token")
	for _, c := range []struct {
		name string
		with setup
		args []string
		want said
	}{
		{"viewer looks", through(url, viewerToken), []string{"dead", "list", "--json"}, said{}},
		{"from a file", setup{}, []string{"dead", "list", "--json", "--api", url, "--token-file", file}, said{}},
		{"viewer cancels", through(url, viewerToken), []string{"cancel", "one"}, said{status: exitFailed, stderr: "answered 403 Forbidden: The token's role, viewer, does not allow this"}},
		{"no token", through(url, ""), []string{"audit"}, said{status: exitFailed, stderr: "give its token by --token-file or PUSHPACE_API_TOKEN"}},
		{"wrong token", through(url, "other-hunter2"), []string{"audit"}, said{status: exitFailed, stderr: "answered 401 Unauthorized"}},
		{"wrong app", through(url, viewerToken), []string{"timeline", "ada", "--app", "none"}, said{status: exitUsage, stderr: "app is not one of the configuration's apps: demo"}},
		{"nobody there", through("http://127.0.0.1:1", viewerToken), []string{"audit"}, said{status: exitFailed, stderr: "the API at 127.0.0.1:1: dial tcp"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := ended(t, c.with, c.args...)
			if got.status != c.want.status || got.stdout != c.want.stdout || !strings.Contains(got.stderr, c.want.stderr) || strings.Contains(got.stderr, "hunter2") {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// The limits are the same, whichever way they are looked at and set.
func TestLimitsThroughTheAPI(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, url := s.guardedAPI(t)
	remote := through(url, operatorToken)
	for _, c := range []struct {
		args []string
		want said
	}{
		{[]string{"set", "--user", "ö/d a", "--min-gap", "500ms", "--rate", "30/1m", "--for", "2h"}, said{stderr: `In force for user 'ö/d a': 500ms apart, 30/1m until `}},
		{[]string{"set", "--category", "marketing", "--rate", "2/24h"}, said{}},
		{[]string{"set", "--user", "ö/d a", "--category", "security", "--exempt"}, said{}},
		{[]string{"set", "--app", "demo", "--rate", "7/1h"}, said{stderr: "In force for app demo: 7/1h"}},
		{[]string{"set", "--app", "demo", "--user", "ö/d a", "--category", "chat", "--rate", "8/1h"}, said{stderr: "In force for app demo, user 'ö/d a', category chat: 8/1h"}},
		{[]string{"set", "--app", "demo", "--user", "eve", "--rate", "9/1h"}, said{}},
		{[]string{"unset", "--app", "demo", "--user", "eve"}, said{stderr: "The override of app demo, user eve is gone."}},
		{[]string{"unset", "--app", "gone"}, said{status: exitFailed, stderr: "app gone has no override"}},
		{[]string{"unset", "--user", "nobody"}, said{status: exitFailed, stderr: `user nobody has no override`}},
		{[]string{"set", "--user", "ada", "--exempt"}, said{status: exitUsage, stderr: "exempt: is for a category"}},
		{[]string{"set", "--user", "ada", "--rate", "1/720h"}, said{status: exitUsage, stderr: "horizon"}},
		{[]string{"set", "--user", "ada", "--rate", "1/1m", "--until", "2020-01-01T00:00:00Z"}, said{status: exitUsage, stderr: "--until: has passed"}},
		{[]string{"set", "--user", "ada", "--rate", "1/1m", "--by", "me"}, said{status: exitUsage, stderr: "--by: through the HTTP API"}},
	} {
		got := ended(t, remote, append([]string{"limits"}, c.args...)...)
		if got.status != c.want.status || got.stdout != "" || !strings.Contains(got.stderr, c.want.stderr) {
			t.Errorf("%v: got %+v, want %+v", c.args, got, c.want)
		}
	}
	same := func(args ...string) said {
		t.Helper()
		direct, api := ended(t, s.setup, append([]string{"limits"}, args...)...), ended(t, remote, append([]string{"limits"}, args...)...)
		if direct != api || direct.status != exitDone {
			t.Errorf("%v\nRedis: %+v\nAPI:   %+v", args, direct, api)
		}
		return api
	}
	for _, json := range []string{"--json=false", "--json"} {
		same("get", json)
		same("get", json, "--user", "ö/d a")
		same("get", json, "--category", "marketing")
		same("get", json, "--user", "ö/d a", "--category", "security")
		same("get", json, "--user", "nobody", "--category", "chat")
		same("get", json, "--app", "demo")
		same("get", json, "--app", "demo", "--user", "ö/d a", "--category", "chat")
		same("get", json, "--user", "..", "--category", ".")
		same("list", json)
		same("log", json)
	}
	for user, want := range map[string][]string{
		"eve":   {"general 7/1h from the override of the app category no limit from the configuration"},
		"ö/d a": {"general 500ms apart, 30/1m from the override of the user until ", "category 8/1h from the override of the app, user and category"},
	} {
		got := strings.Join(strings.Fields(same("get", "--app", "demo", "--user", user, "--category", "chat").stdout), " ")
		for _, part := range want {
			if !strings.Contains(got, part) {
				t.Errorf("in force for %s is %s, want %s", user, got, part)
			}
		}
	}
	exported := same("export").stdout
	if strings.Count(exported, "\n") != 5 || !strings.Contains(exported, `"by":"operator"`) {
		t.Errorf("exported %s", exported)
	}
	if got := ended(t, remote, "limits", "unset", "--category", "marketing"); got != (said{stderr: "The override of category marketing is gone.\n"}) {
		t.Errorf("%+v", got)
	}
	remote.stdin = strings.NewReader(exported)
	if got := ended(t, remote, "limits", "import", "-"); got.status != exitDone || got.stderr != "5 are set.\n" {
		t.Errorf("%+v", got)
	}
	if again := same("list").stdout; !strings.Contains(again, "marketing") {
		t.Errorf("after the import: %s", again)
	}
}

// What all workers together may do is the same, whichever way it is looked at and set.
func TestQuotasThroughTheAPI(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.env = append(s.env, "PUSHPACE_LIMITS__CATEGORIES__MARKETING__THROUGHPUT__RATE=50000/1m")
	_, url := s.guardedAPI(t)
	remote := through(url, operatorToken)
	const key = "category/demo/marketing"
	same := func(want string, args ...string) {
		t.Helper()
		direct, api := ended(t, s.setup, append([]string{"limits"}, args...)...), ended(t, remote, append([]string{"limits"}, args...)...)
		if got := strings.Join(strings.Fields(api.stdout), " "); direct != api || direct.status != exitDone || !strings.Contains(got, want) {
			t.Errorf("%v\nRedis: %+v\nAPI:   %+v\nwant:  %s", args, direct, api, want)
		}
	}
	same(key+" demo {rate: 50000/1m} 500 of 500 the configuration", "quotas")
	for _, where := range []setup{s.setup, remote} {
		if got := ended(t, where, "limits", "set", "--quota", key, "--rate", "20000/1m", "--for", "2h"); got.status != exitDone || !strings.Contains(got.stderr, "In force for quota "+key+": 20000/1m until ") {
			t.Errorf("%+v", got)
		}
		same(key+" demo {rate: 20000/1m} 200 of 200 the override by ", "quotas")
		same(`"limit":"{rate: 20000/1m}","source":"quota","until":"`, "quotas", "--json")
		same(key+" 20000/1m", "list")
		same(key+" none 20000/1m until ", "log", "-n", "1")
		exported := ended(t, where, "limits", "export").stdout
		if got := ended(t, where, "limits", "unset", "--quota", key); got != (said{stderr: "The override of quota " + key + " is gone.\n"}) {
			t.Errorf("%+v", got)
		}
		where.stdin = strings.NewReader(exported)
		if got := ended(t, where, "limits", "import", "-"); got.status != exitDone {
			t.Errorf("%+v", got)
		}
		same("{rate: 20000/1m}", "quotas")
		for want, args := range map[string][]string{
			"did you mean " + key:              {"--quota", "category/demo/markting", "--rate", "1/1m"},
			"want one for a quota":             {"--quota", key, "--rate", "1/1m", "--rate", "2/1h"},
			"excludes --app, --user":           {"--quota", key, "--user", "ada", "--rate", "1/1m"},
			"the count is not positive":        {"--quota", key, "--rate", "0/1m"},
			"neither min_gap, quiet_hours nor": {"--quota", key, "--min-gap", "1s"},
			"quota is none of the configur":    {"--quota", "fcm/none", "--rate", "1/1m"},
		} {
			if got := ended(t, where, append([]string{"limits", "set"}, args...)...); got.status != exitUsage || !strings.Contains(got.stderr, want) {
				t.Errorf("%v: %+v", args, got)
			}
		}
		if got := ended(t, where, "limits", "unset", "--quota", key); got.status != exitDone {
			t.Errorf("%+v", got)
		}
	}
}

// An import through the API sets nothing unless every line is valid, by the
// horizon of the API; and more than a page is listed and logged whole.
func TestManyLimitsThroughTheAPI(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, url := s.guardedAPI(t)
	remote := through(url, operatorToken)
	remote.stdin = strings.NewReader(`{"user":"ada","rates":["1/1m"]}` + "\n" + `{"user":"ben","rates":["1/720h"]}` + "\n")
	if got := ended(t, remote, "limits", "import", "-"); got.status != exitUsage || !strings.Contains(got.stderr, "line 2: ") || !strings.Contains(got.stderr, "horizon") {
		t.Errorf("%+v", got)
	}
	remote.stdin = strings.NewReader(`{"user":"ada","rates":["1/1m"]}` + "\n\n" + `{"app":"deom","rates":["1/1m"]}` + "\n" + `{"quota":"none","rates":["1/1m"]}` + "\n")
	want := "pushpace: standard input: line 3: app is not one of the configuration's apps: demo; did you mean demo?\nline 4: quota is none of the configuration's\n"
	if got := ended(t, remote, "limits", "import", "-"); got != (said{status: exitUsage, stderr: want}) {
		t.Errorf("%+v", got)
	}
	remote.stdin = nil
	if got := ended(t, remote, "limits", "list", "--json"); got != (said{}) {
		t.Errorf("%+v", got)
	}
	const overrides = 1100
	all := make([]limits.Override, overrides)
	for i := range all {
		all[i] = limits.Override{Level: limits.Level{User: fmt.Sprintf("user-%d", i)}, By: "ada", Policy: throttle.Policy{MinGap: time.Minute}}
	}
	if err := limits.NewOverrides(s.client, "", 0).Import(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"limits", "list", "--json"}, {"limits", "log", "--json", "-n", "5000"}} {
		direct, api := ended(t, s.setup, args...), ended(t, remote, args...)
		if direct != api || strings.Count(api.stdout, "\n") != overrides {
			t.Errorf("%v: %d lines through the API, %d on Redis: %s", args, strings.Count(api.stdout, "\n"), strings.Count(direct.stdout, "\n"), api.stderr)
		}
	}
}

func TestPausesThroughTheAPI(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, url := s.guardedAPI(t)
	remote := through(url, operatorToken)
	const until = "2126-01-01T00:00:00Z"
	for _, args := range [][]string{
		{"pause", "--category", "a b", "--until", until, "--reason", "too much"}, {"pause", "--app", "demo", "--platform", "fcm"}, {"pause", "--all"},
	} {
		if got := ended(t, remote, args...); got.status != exitDone {
			t.Errorf("%v: %+v", args, got)
		}
	}
	for _, args := range [][]string{{"pauses"}, {"pauses", "--json"}} {
		direct, api := ended(t, s.setup, args...), ended(t, remote, args...)
		if direct != api || strings.Count(api.stdout, "operator") < 3 || !strings.Contains(api.stdout, "too much") {
			t.Errorf("%v\nRedis: %+v\nAPI:   %+v", args, direct, api)
		}
	}
	for _, args := range [][]string{
		{"pause"}, {"pause", "--app", "shpo"}, {"pause", "--all", "--until", "2020-01-01T00:00:00Z"}, {"pause", "--platform", "pigeon"}, {"resume", "--platform", "pigeon"},
		{"pause", "--all", "--by", "ada"},
	} {
		if got := ended(t, remote, args...); got.status != exitUsage || got.stderr == "" {
			t.Errorf("%v: %+v", args, got)
		}
	}
	for _, args := range [][]string{{"resume", "--category", "a b"}, {"resume", "--all"}, {"resume", "--app", "demo", "--platform", "fcm"}} {
		if got := ended(t, remote, args...); got.status != exitDone {
			t.Errorf("%v: %+v", args, got)
		}
		if direct, api := ended(t, s.setup, args...), ended(t, remote, args...); direct != api || api.status != exitFailed {
			t.Errorf("%v again\nRedis: %+v\nAPI:   %+v", args, direct, api)
		}
	}
	if got := ended(t, through(url, viewerToken), "pause", "--all"); got.status != exitFailed {
		t.Errorf("a viewer pauses: %+v", got)
	}
}
