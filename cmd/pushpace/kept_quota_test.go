//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/fcm"
	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/control"
)

// In these tests FCM takes quotaCount in each of its windows, which begin when they
// like. The workers are told 2 % less: what leaves apart may arrive together.
const (
	quotaCount  = 6000
	quotaWindow = 6 * time.Second
	quotaTold   = "5880/6s"
)

// Eight workers have more to send than FCM takes, and every 5 s one of them is killed.
// FCM refuses none for its quota, of which nearly all is used, and nothing is lost.
func TestWorkersKeepAQuota(t *testing.T) {
	aboutProcesses(t, "takes most of a minute")
	const judged = 4 // windows
	const accepted = (judged + 2) * quotaCount
	s := newQuotaSite(t, 8)
	s.enqueue(t, "shop", accepted)
	s.begin(t)
	s.workers[0].until(t, "pushes", func() bool { return s.limited.Ledger().Len() > 0 })
	from := time.Now().Add(quotaWindow)
	to := from.Add(judged * quotaWindow)
	s.run(t, to)
	entries := s.limited.Ledger().Entries()
	used := between(entries, from, to) / judged
	if want := quotaCount * 92 / 100; used < want {
		// is it the machine? what has no quota tells what it can do besides
		s.enqueue(t, "free", 2*quotaCount)
		from := time.Now()
		s.run(t, from.Add(quotaWindow))
		able := s.free.Ledger().Len() + between(s.limited.Ledger().Entries(), from, from.Add(quotaWindow))
		if want = min(want, able*92/100); used < want {
			t.Errorf("%d of %d were used in %s, want %d: without a quota there are %d", used, quotaCount, quotaWindow, want, able)
		}
	}
	s.end(t, accepted)
	if n := s.limited.OverQuota(); n > 0 {
		t.Errorf("FCM refused %d for its quota", n)
	}
	t.Logf("%d killed, %d of %d used, at most %d in any %s", s.killed, used, quotaCount, most(entries, quotaWindow), quotaWindow)
}

// A bucket that promises nothing lets more pass in a window than its rate says: FCM
// refuses some, as it would above.
func TestAPlainBucketExceedsAQuota(t *testing.T) {
	t.Parallel()
	const count, window = 200, 20 * time.Second
	google, err := fcmtest.NewServer(fcmtest.Options{ProjectQuota: fcmtest.Quota{Count: count, Per: window, Begins: time.Now()}})
	if err != nil {
		t.Fatal(err)
	}
	defer google.Close()
	c, err := google.WriteCredentials(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sender, err := fcm.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	bucket := meter.NewMemory(nil)
	spec := meter.Spec{Rates: []throttle.Rate{{Count: count * 98 / 100, Period: window}}}
	for sent := 0; google.OverQuota() == 0; sent++ {
		answer, err := bucket.Take(t.Context(), google.Project(), spec, meter.Ask{Least: 1, Most: 1, Ahead: time.Second})
		if err != nil || sent > 2*count {
			t.Fatalf("%d sent, none refused: %v", sent, err)
		}
		time.Sleep(answer.Left)
		id := fmt.Sprint("n-", sent)
		target := push.Target{Platform: push.FCM, Token: id}
		sender.Send(t.Context(), &push.Notification{ID: id, App: "shop", User: id, Title: "hello", Targets: []push.Target{target}}, target)
	}
	if n := google.Ledger().Len(); n < count {
		t.Errorf("one was refused after %d of %d", n, count)
	}
}

// A quotaSite is workers that send for two apps through FCM, of which one has a quota.
type quotaSite struct {
	setup
	client        *redis.Client
	limited, free *fcmtest.Server
	workers       []*program
	killed        int
}

func newQuotaSite(t *testing.T, workers int) *quotaSite {
	t.Helper()
	server := redistest.Start(t)
	s := &quotaSite{client: server.Client(t), workers: make([]*program, workers)}
	text := fmt.Sprintf("redis: {address: %q}\nlimits: {default: {min_gap: 0s}}\napps:\n", server.Addr())
	app := func(name, quota string, o fcmtest.Options) *fcmtest.Server {
		o.Projects, o.Latency = []string{name}, standin.Latency{Typical: 5 * time.Millisecond}
		google, err := fcmtest.NewServer(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { google.Close() })
		c, err := google.WriteCredentials(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("  %s: {fcm: {credentials_file: %q, endpoint: %q, root_ca_file: %q%s}}\n", name, c.CredentialsFile, c.Endpoint, c.RootCAFile, quota)
		return google
	}
	s.limited = app("shop", ", quota: {rate: "+quotaTold+"}", fcmtest.Options{ProjectQuota: fcmtest.Quota{Count: quotaCount, Per: quotaWindow}})
	s.free = app("free", "", fcmtest.Options{})
	s.dir = write(t, "config.yaml", text)
	return s
}

// enqueue puts n notifications of an app on the queue, each of a user of its own.
func (s *quotaSite) enqueue(t *testing.T, app string, n int) {
	t.Helper()
	producer := push.NewProducer(s.client, "", 0)
	const together = 200
	for i := 0; i < n; i += together {
		var batch []*push.Notification
		for k := i; k < min(i+together, n); k++ {
			id := fmt.Sprint(app, "-", k)
			batch = append(batch, &push.Notification{
				ID: id, App: app, User: id, Title: "hello", Targets: []push.Target{{Platform: push.FCM, Token: id}},
			})
		}
		for _, r := range producer.EnqueueAll(t.Context(), batch) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
}

func (s *quotaSite) begin(t *testing.T) {
	t.Helper()
	for i := range s.workers {
		s.workers[i] = start(t, s.setup, "serve")
	}
}

// run kills a worker every 5 s, and starts another in its place, until then.
func (s *quotaSite) run(t *testing.T, until time.Time) {
	t.Helper()
	const every = 5 * time.Second
	for time.Until(until) > every {
		time.Sleep(every)
		victim := &s.workers[s.killed%len(s.workers)]
		if err := (*victim).cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-(*victim).done
		*victim = start(t, s.setup, "serve")
		s.killed++
	}
	time.Sleep(time.Until(until))
}

// end ends the workers, and expects that nothing is lost of what was accepted.
func (s *quotaSite) end(t *testing.T, accepted int64) {
	t.Helper()
	for _, w := range s.workers {
		w.terminate(t)
	}
	for _, w := range s.workers {
		if got := w.wait(t, 25*time.Second); got != exitDone {
			t.Errorf("exit status %d: %s", got, &w.stderr)
		}
	}
	p := start(t, s.setup, "audit", "--json")
	status := p.wait(t, 10*time.Second)
	var audit control.Audit
	if err := json.Unmarshal([]byte(p.stdout.String()), &audit); err != nil || status != exitDone || audit.Difference != 0 || audit.Accepted < accepted {
		t.Errorf("audit: exit status %d: %s%s, %v", status, &p.stdout, &p.stderr, err)
	}
}

// between is how many were accepted from one instant to the other.
func between(entries []standin.Entry, from, to time.Time) int {
	n := 0
	for _, e := range entries {
		if !e.At.Before(from) && e.At.Before(to) {
			n++
		}
	}
	return n
}

// most is how many were accepted within any time of that length.
func most(entries []standin.Entry, length time.Duration) int {
	n, first := 0, 0
	for i, e := range entries {
		for e.At.Sub(entries[first].At) >= length {
			first++
		}
		n = max(n, i+1-first)
	}
	return n
}
