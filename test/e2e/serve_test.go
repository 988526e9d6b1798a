//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/providers/apns/apnstest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
)

// A burst for one user goes through three processes: its pushes are admitted at the limit's
// distance, and none comes before its admission, however busy the machine is.
func TestThreeProcesses(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	standIns := s.Simulate(t)
	workers := s.Serve(t)
	var input strings.Builder
	for i := range 4 {
		input.WriteString(rig.Notification(fmt.Sprintf("burst-%d", i), "ada", "chat", "apns", fmt.Sprintf("%064x", i)))
	}
	input.WriteString(rig.Notification("code-1", "ada", "security", "fcm", "ada-pixel"))
	input.WriteString(rig.Notification("other-1", "ben", "chat", "fcm", "ben-pixel"))
	for _, r := range s.Send(t, rig.Done, input.String()) {
		if r.Known == nil || *r.Known {
			t.Errorf("line %d: %+v", r.Line, r)
		}
	}
	workers.Until(t, "six pushes", func() bool { return len(s.Ledger(t)) >= 6 })
	limiter, err := throttle.New(s.Client, throttle.Options{})
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
	for _, e := range s.Ledger(t) {
		if !strings.HasPrefix(e.Notification, "burst-") {
			continue
		}
		if came++; e.Platform != "apns" || e.App != apnstest.Topic || e.APNsID == "" {
			t.Errorf("%+v", e)
		}
		if a, found := admitted[e.Notification]; !found || e.At.Before(a.Add(-rig.ClockError)) {
			t.Errorf("%s came at %s, and was admitted at %s", e.Notification, e.At, a)
		}
	}
	if came != 4 || len(at) != 4 {
		t.Fatalf("%d of ada's 4 came, %d were admitted", came, len(at))
	}
	again := s.Send(t, rig.Done, rig.Notification("burst-0", "ada", "chat", "apns", fmt.Sprintf("%064x", 0)))
	if r := again[1]; r.Known == nil || !*r.Known {
		t.Errorf("the same ID again: %+v", r)
	}
	s.Stop(t, workers, standIns)
	if n := len(s.Ledger(t)); n != 6 {
		t.Errorf("%d pushes, want 6", n)
	}
}

// What is under way when the workers are told to stop is still settled.
func TestServeDrains(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	s.StandIns(t, 4*time.Second)
	workers := s.Serve(t)
	s.Send(t, rig.Done, rig.Notification("slow-1", "ada", "chat", "apns", "00")+rig.Notification("slow-2", "ben", "chat", "fcm", "ben-pixel"))
	inspector := asynq.NewInspectorFromRedisClient(s.Client)
	workers.Until(t, "both under way", func() bool {
		info, err := inspector.GetQueueInfo(push.Default.Queue())
		return err == nil && info.Active == 2
	})
	s.Stop(t, workers)
	counts, err := ledger.NewRecords(s.Client, "", 0).Counts(t.Context())
	if err != nil || counts.Ended[push.Delivered] != 2 || counts.Waiting() != 0 {
		t.Errorf("%+v, %v", counts, err)
	}
}

func TestServeEndsAtOnceAtTheSecondSignal(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	s.StandIns(t, 9*time.Second)
	workers := s.Serve(t)
	s.Send(t, rig.Done, rig.Notification("slow-1", "ada", "chat", "apns", "00"))
	inspector := asynq.NewInspectorFromRedisClient(s.Client)
	workers.Until(t, "under way", func() bool {
		info, err := inspector.GetQueueInfo(push.Default.Queue())
		return err == nil && info.Active == 1
	})
	workers.Terminate(t)
	workers.Until(t, "the first signal", func() bool { return strings.Contains(workers.Stderr.String(), "stopping") })
	workers.Terminate(t)
	workers.Wait(t)
	if status, ok := workers.Cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("ended with %v", workers.Cmd.ProcessState)
	}
}

// The shipped configuration runs as it is, and the log can be JSON.
func TestServeAsShipped(t *testing.T) {
	t.Parallel()
	dir := rig.Write(t, "config.yaml", string(pushpace.ConfigYAML))
	p := rig.Start(t, rig.Setup{Dir: dir, Env: []string{"PUSHPACE_LOG__FORMAT=json"}}, "serve")
	p.Until(t, "serving", func() bool { return strings.Contains(p.Stderr.String(), "serving") })
	(&rig.Site{}).Stop(t, p)
	for line := range strings.Lines(p.Stderr.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	if !strings.Contains(p.Stderr.String(), "keeps nothing") {
		t.Errorf("standard error: %s", &p.Stderr)
	}
}

// A file of many lines is enqueued whole, each user's in the file's order.
func TestSendKeepsAUsersOrder(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	var input strings.Builder
	for i := range 2000 {
		input.WriteString(rig.Notification(fmt.Sprintf("n-%04d", i), fmt.Sprintf("user-%d", i%20), "chat", "apns", "00"))
	}
	s.Send(t, rig.Done, input.String())
	last := map[string]string{}
	ids, err := s.Client.LRange(t.Context(), "asynq:{"+push.Default.Queue()+"}:pending", 0, -1).Result()
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

// A credential file that changes is told of: a bad one once, while the old one
// stays in use.
func TestServeTellsOfChangedCredentials(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	s.Simulate(t, "--dir", s.Dir)
	workers := s.Serve(t)
	var file string
	for _, entry := range s.Env {
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
		workers.Until(t, change.level, func() bool {
			for line := range strings.Lines(workers.Stderr.String()) {
				if strings.Contains(line, change.level) && strings.Contains(line, "the credentials") && strings.Contains(line, "app=demo platform=fcm") {
					return true
				}
			}
			return false
		})
	}
	s.Send(t, rig.Done, rig.Notification("one", "ada", "chat", "fcm", "ada-pixel"))
	workers.Until(t, "the push", func() bool { return len(s.Ledger(t)) == 1 })
	s.Stop(t, workers)
	if n := strings.Count(workers.Stderr.String(), "level=ERROR"); n != 1 {
		t.Errorf("%d errors: %s", n, &workers.Stderr)
	}
}
