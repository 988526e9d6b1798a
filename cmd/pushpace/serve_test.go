//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/apns/apnstest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/queue"
)

// A site is a Redis and a folder with the shipped configuration.
type site struct {
	setup
	client *redis.Client
}

func newSite(t *testing.T) *site {
	t.Helper()
	server, db := redistest.Shared(t), redistest.Database(t)
	options := server.Options()
	options.DB = db
	s := &site{client: redis.NewClient(options)}
	t.Cleanup(func() { _ = s.client.Close() })
	s.dir = write(t, "config.yaml", string(pushpace.ConfigYAML))
	s.env = []string{"PUSHPACE_REDIS__ADDRESS=" + server.Addr(), "PUSHPACE_REDIS__DB=" + strconv.Itoa(db)}
	return s
}

// simulate starts the stand-ins and points the site at them.
func (s *site) simulate(t *testing.T, args ...string) *program {
	t.Helper()
	p := start(t, s.setup, append([]string{"simulate", "--ledger", "ledger.ndjson"}, args...)...)
	p.until(t, "the settings", func() bool { return strings.HasSuffix(p.stdout.String(), "\n") })
	s.env = append(s.env, strings.Fields(p.stdout.String())...)
	return p
}

// standIns starts stand-ins inside the test and points the site at them.
func (s *site) standIns(t *testing.T, o standInOptions) *standIns {
	t.Helper()
	all, err := startStandIns(t.TempDir(), func(*platform) standInOptions { return o })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = all.close() })
	s.env = append(s.env, strings.Fields(variables("demo", all.app))...)
	return all
}

// serve starts the workers.
func (s *site) serve(t *testing.T) *program {
	t.Helper()
	p := start(t, s.setup, "serve")
	p.until(t, "serving", func() bool { return strings.Contains(p.stderr.String(), "serving") })
	return p
}

// send runs send with that input and answers its output by line number.
func (s *site) send(t *testing.T, want int, input string) map[int]result {
	t.Helper()
	with := s.setup
	with.stdin = strings.NewReader(input)
	p := start(t, with, "send", "--file", "-")
	if got := p.wait(t, 20*time.Second); got != want {
		t.Errorf("exit status %d, want %d: %s", got, want, &p.stderr)
	}
	results := map[int]result{}
	for line := range strings.Lines(p.stdout.String()) {
		var r result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		results[r.Line] = r
	}
	return results
}

func (s *site) ledger(t *testing.T) []standin.Entry {
	t.Helper()
	f, err := os.Open(filepath.Join(s.dir, "ledger.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var entries []standin.Entry
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		var e standin.Entry
		if json.Unmarshal(scanner.Bytes(), &e) == nil { // the last may be half written
			entries = append(entries, e)
		}
	}
	return entries
}

func notification(id, user, category, platform, token string) string {
	return fmt.Sprintf(`{"id":%q,"app":"demo","user":%q,"category":%q,"targets":[{"platform":%q,"token":%q}],"title":"t"}`+"\n",
		id, user, category, platform, token)
}

// A burst for one user goes through three processes: its pushes are admitted at the limit's
// distance, and none comes before its admission, however busy the machine is.
func TestThreeProcesses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	standIns := s.simulate(t)
	workers := s.serve(t)
	var input strings.Builder
	for i := range 4 {
		input.WriteString(notification(fmt.Sprintf("burst-%d", i), "ada", "chat", "apns", fmt.Sprintf("%064x", i)))
	}
	input.WriteString(notification("code-1", "ada", "security", "fcm", "ada-pixel"))
	input.WriteString(notification("other-1", "ben", "chat", "fcm", "ben-pixel"))
	for _, r := range s.send(t, exitDone, input.String()) {
		if r.Known == nil || *r.Known {
			t.Errorf("line %d: %+v", r.Line, r)
		}
	}
	workers.until(t, "six pushes", func() bool { return len(s.ledger(t)) >= 6 })
	limiter, err := throttle.New(s.client, throttle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer limiter.Close()
	timeline, err := limiter.Timeline(t.Context(), throttle.Request{App: "demo", User: "ada", Scopes: []throttle.Scope{{Name: throttle.General}}})
	if err != nil {
		t.Fatal(err)
	}
	admitted := map[string]time.Time{}
	var at []time.Time
	for _, a := range timeline.Admissions[throttle.General] {
		if strings.HasPrefix(a.ID, "burst-") {
			admitted[a.ID] = a.At
			at = append(at, a.At)
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	for i := 1; i < len(at); i++ {
		if gap := at[i].Sub(at[i-1]); gap < time.Second {
			t.Errorf("ada's are admitted within %s", gap)
		}
	}
	came := 0
	for _, e := range s.ledger(t) {
		if !strings.HasPrefix(e.Notification, "burst-") {
			continue
		}
		if came++; e.Platform != "apns" || e.App != apnstest.Topic || e.APNsID == "" {
			t.Errorf("%+v", e)
		}
		if a, found := admitted[e.Notification]; !found || e.At.Before(a.Add(-clockError)) {
			t.Errorf("%s came at %s, and was admitted at %s", e.Notification, e.At, a)
		}
	}
	if came != 4 || len(at) != 4 {
		t.Fatalf("%d of ada's 4 came, %d were admitted", came, len(at))
	}
	again := s.send(t, exitDone, notification("burst-0", "ada", "chat", "apns", fmt.Sprintf("%064x", 0)))
	if r := again[1]; r.Known == nil || !*r.Known {
		t.Errorf("the same ID again: %+v", r)
	}
	s.stop(t, workers, standIns)
	if n := len(s.ledger(t)); n != 6 {
		t.Errorf("%d pushes, want 6", n)
	}
}

// stop ends the programs and expects that they are content.
func (s *site) stop(t *testing.T, programs ...*program) {
	t.Helper()
	for _, p := range programs {
		p.terminate(t)
		if got := p.wait(t, 20*time.Second); got != exitDone {
			t.Errorf("%s: exit status %d: %s", p.cmd.Args[1], got, &p.stderr)
		}
	}
}

// What is under way when the workers are told to stop is still settled.
func TestServeDrains(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.standIns(t, standInOptions{latency: standin.Latency{Typical: 4 * time.Second}})
	workers := s.serve(t)
	s.send(t, exitDone, notification("slow-1", "ada", "chat", "apns", "00")+notification("slow-2", "ben", "chat", "fcm", "ben-pixel"))
	inspector := asynq.NewInspectorFromRedisClient(s.client)
	workers.until(t, "both under way", func() bool {
		info, err := inspector.GetQueueInfo(push.Default.Queue())
		return err == nil && info.Active == 2
	})
	s.stop(t, workers)
	counts, err := ledger.NewRecords(s.client, "", 0).Counts(t.Context())
	if err != nil || counts.Ended[push.Delivered] != 2 || counts.Waiting() != 0 {
		t.Errorf("%+v, %v", counts, err)
	}
}

func TestServeEndsAtOnceAtTheSecondSignal(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.standIns(t, standInOptions{latency: standin.Latency{Typical: 9 * time.Second}})
	workers := s.serve(t)
	s.send(t, exitDone, notification("slow-1", "ada", "chat", "apns", "00"))
	inspector := asynq.NewInspectorFromRedisClient(s.client)
	workers.until(t, "under way", func() bool {
		info, err := inspector.GetQueueInfo(push.Default.Queue())
		return err == nil && info.Active == 1
	})
	workers.terminate(t)
	workers.until(t, "the first signal", func() bool { return strings.Contains(workers.stderr.String(), "stopping") })
	workers.terminate(t)
	workers.wait(t, 6*time.Second) // the push takes longer
	if status, ok := workers.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("ended with %v", workers.cmd.ProcessState)
	}
}

// The shipped configuration runs as it is, and the log can be JSON.
func TestServeAsShipped(t *testing.T) {
	t.Parallel()
	dir := write(t, "config.yaml", string(pushpace.ConfigYAML))
	p := start(t, setup{dir: dir, env: []string{"PUSHPACE_LOG__FORMAT=json"}}, "serve")
	p.until(t, "serving", func() bool { return strings.Contains(p.stderr.String(), "serving") })
	(&site{}).stop(t, p)
	for line := range strings.Lines(p.stderr.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	if !strings.Contains(p.stderr.String(), "keeps nothing") {
		t.Errorf("standard error: %s", &p.stderr)
	}
}

func TestSendBadLines(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	results := s.send(t, exitFailed, notification("good-1", "ada", "chat", "apns", "00")+
		"not JSON\n"+
		"\n"+
		`{"app":"demo","user":"","targets":[]}`+"\n"+
		strings.Repeat("x", 2*push.MaxEncodedSize)+"\n"+
		notification("bad-2", "ada", "chat", "pigeon", "00")+
		`{"app":"demo","usr":"ada"}`+"\n"+
		notification("good-2", "ada", "chat", "apns", "00"))
	if got, want := slices.Sorted(maps.Keys(results)), []int{1, 2, 4, 5, 6, 7, 8}; !slices.Equal(got, want) {
		t.Fatalf("lines %v, want %v", got, want)
	}
	for _, good := range []int{1, 8} {
		if r := results[good]; r.Error != "" || r.Known == nil || *r.Known {
			t.Errorf("line %d: %+v", good, r)
		}
	}
	for number, field := range map[int]string{2: "", 4: "/user", 5: "", 6: "/targets/0/platform", 7: "/usr"} {
		r := results[number]
		if r.Error == "" || r.Known != nil || !slices.ContainsFunc(r.Faults, func(f push.Fault) bool { return f.Field == field }) {
			t.Errorf("line %d: %+v, want a fault of %q", number, r, field)
		}
	}
	counts, err := ledger.NewRecords(s.client, "", 0).Counts(t.Context())
	if err != nil || counts.Accepted != 2 {
		t.Errorf("%+v, %v", counts, err)
	}
}

func TestSendFromFlags(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	args := []string{"send", "--id", "one", "--app", "demo", "--user", "ada", "--apns", "00", "--apns", "01", "--fcm", "ada-pixel",
		"--priority", "critical", "--badge", "0", "--data", "a=b=c", "--ttl", "1h"}
	p := start(t, s.setup, args...)
	if got := p.wait(t, 10*time.Second); got != exitDone || p.stdout.String() != `{"id":"one","known":false}`+"\n" {
		t.Fatalf("exit status %d: %s%s", got, &p.stdout, &p.stderr)
	}
	place, err := queue.NewInspector(s.client, shard.Named(s.client, "", 1)[0]).Find(t.Context(), push.Critical.Queue(), "one")
	if err != nil {
		t.Fatal(err)
	}
	job, err := push.Decode(place.Payload)
	if err != nil {
		t.Fatal(err)
	}
	n := job.Notification
	if len(n.Targets) != 3 || n.Badge == nil || *n.Badge != 0 || n.Data["a"] != "b=c" || time.Until(n.ExpiresAt) < 59*time.Minute {
		t.Errorf("%+v", n)
	}
	p = start(t, s.setup, "send", "--id", "two", "--app", "demo", "--user", "ada", "--title", "t", "--apns", "00", "--not-before-local", "2099-11-26T09:00", "--time-zone", "Asia/Tokyo")
	if got := p.wait(t, 10*time.Second); got != exitDone {
		t.Fatalf("exit status %d: %s%s", got, &p.stdout, &p.stderr)
	}
	p = start(t, s.setup, "status", "two", "--json")
	if got := p.wait(t, 10*time.Second); got != exitDone || !strings.Contains(p.stdout.String(), `"not_before":"2099-11-26T00:00:00Z"`) {
		t.Errorf("exit status %d: %s%s", got, &p.stdout, &p.stderr)
	}
	p = start(t, s.setup, "send", "--app", "demo")
	if got := p.wait(t, 10*time.Second); got != exitFailed || !strings.Contains(p.stdout.String(), `"field":"/user"`) {
		t.Errorf("exit status %d: %s%s", got, &p.stdout, &p.stderr)
	}
}

// A file of many lines is enqueued whole, each user's in the file's order.
func TestSendKeepsAUsersOrder(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var input strings.Builder
	for i := range 2000 {
		input.WriteString(notification(fmt.Sprintf("n-%04d", i), fmt.Sprintf("user-%d", i%20), "chat", "apns", "00"))
	}
	s.send(t, exitDone, input.String())
	last := map[string]string{}
	ids, err := s.client.LRange(t.Context(), "asynq:{"+push.Default.Queue()+"}:pending", 0, -1).Result()
	if err != nil || len(ids) != 2000 {
		t.Fatalf("%d jobs, %v", len(ids), err)
	}
	slices.Reverse(ids) // the next to be pulled is the list's last
	for _, id := range ids {
		n, err := strconv.Atoi(strings.TrimPrefix(id, "n-"))
		if err != nil {
			t.Fatal(err)
		}
		user := strconv.Itoa(n % 20)
		if id < last[user] {
			t.Fatalf("%s is after %s", id, last[user])
		}
		last[user] = id
	}
}

// The printed settings make the shipped configuration send to the stand-ins.
func TestVariables(t *testing.T) {
	t.Parallel()
	s, err := startStandIns(t.TempDir(), func(*platform) standInOptions { return standInOptions{} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close() })
	for _, app := range []string{"demo", "another_app2"} {
		cfg, err := config.Parse("config.yaml", pushpace.ConfigYAML, strings.Fields(variables(app, s.app)))
		if err != nil {
			t.Fatal(err)
		}
		got := cfg.Apps[app]
		if got.Simulated || got.APNs == nil || *got.APNs != *s.app.APNs || got.FCM == nil || *got.FCM != *s.app.FCM {
			t.Errorf("%s: %+v", app, got)
		}
	}
}

// A credential file that changes is told of: a bad one once, while the old one
// stays in use.
func TestServeTellsOfChangedCredentials(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.simulate(t, "--dir", s.dir)
	workers := s.serve(t)
	var file string
	for _, entry := range s.env {
		if path, ok := strings.CutPrefix(entry, "PUSHPACE_APPS__DEMO__FCM__CREDENTIALS_FILE="); ok {
			file = path
		}
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []struct{ text, level string }{{"{}", "level=ERROR"}, {string(good) + "\n", "level=INFO"}} {
		if err := os.WriteFile(file, []byte(change.text), 0o600); err != nil {
			t.Fatal(err)
		}
		workers.until(t, change.level, func() bool {
			for line := range strings.Lines(workers.stderr.String()) {
				if strings.Contains(line, change.level) && strings.Contains(line, "the credentials") && strings.Contains(line, "app=demo platform=fcm") {
					return true
				}
			}
			return false
		})
	}
	s.send(t, exitDone, notification("one", "ada", "chat", "fcm", "ada-pixel"))
	workers.until(t, "the push", func() bool { return len(s.ledger(t)) == 1 })
	s.stop(t, workers)
	if n := strings.Count(workers.stderr.String(), "level=ERROR"); n != 1 {
		t.Errorf("%d errors: %s", n, &workers.stderr)
	}
}

// A line whose ID is another notification's is refused, and stops none of the others.
func TestAUsedIDStopsNoOthers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.send(t, exitDone, notification("used", "ada", "orders", "fcm", "t"))
	got := s.send(t, exitFailed, notification("used", "ben", "orders", "fcm", "t")+notification("other", "ben", "orders", "fcm", "t"))
	if got[1].Known != nil || !strings.Contains(got[1].Error, "the ID is another notification's") || got[2].ID != "other" || got[2].Known == nil {
		t.Errorf("%+v", got)
	}
	if counts, err := ledger.NewRecords(s.client, "", 0).Counts(t.Context()); err != nil || counts.Accepted != 2 {
		t.Errorf("%+v, %v", counts, err)
	}
}
