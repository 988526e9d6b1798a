//go:build soak && unix

package soak

import (
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/control"
)

// A keptQuota is what FCM takes in each of its windows, which begin when they like. The
// workers are told 2 % less: what leaves apart may arrive together.
type keptQuota struct {
	count  int
	window time.Duration
	told   string
	judged int     // windows
	used   float64 // at least, of the count
}

// Eight workers have more to send than FCM takes, and every 5 s one of them is killed.
// FCM refuses none for its quota, of which nearly all is used, and nothing is lost.
//
// It takes the machine for itself, and once more with windows as long as FCM's are.
func TestWorkersKeepAQuota(t *testing.T) {
	t.Run("6s", keptQuota{6000, 6 * time.Second, "5880/6s", 4, 0.92}.test)
	if testing.Short() {
		return
	}
	t.Run("1m", keptQuota{60_000, time.Minute, "58800/1m", 1, 0.94}.test)
}

func (q keptQuota) test(t *testing.T) {
	accepted := (q.judged + 2) * q.count
	s := newQuotaSite(t, q, 8)
	s.enqueue(t, accepted)
	s.begin(t)
	s.workers[0].Until(t, "pushes", func() bool { return s.fcm.Ledger().Len() > 0 })
	from := time.Now().Add(q.window)
	to := from.Add(time.Duration(q.judged) * q.window)
	stop, share := make(chan struct{}), make(chan float64)
	go s.watchTrips(t, stop, share)
	s.run(t, to)
	close(stop)
	slow := <-share
	s.end(t, int64(accepted))

	entries := s.fcm.Ledger().Entries()
	used := between(entries, from, to) / q.judged
	t.Logf("%d killed, %d of %d used, at most %d in any %s, a slow machine for %.1f %% of the time",
		s.killed, used, q.count, most(entries, q.window), q.window, 100*slow)
	if n := s.fcm.OverQuota(); n > 0 {
		t.Errorf("FCM refused %d for its quota", n)
	}
	// While the machine is too busy units lapse on their way to the worker, and before
	// what has waited for them gets to run.
	if want := int(float64(q.count) * (q.used - slow)); used < want {
		t.Errorf("%d of %d were used in %s, want %d", used, q.count, q.window, want)
	}
}

// A quotaSite is workers that send within a quota.
type quotaSite struct {
	rig.Setup
	quota   keptQuota
	client  *redis.Client
	fcm     *fcmtest.Server
	workers []*rig.Program
	killed  int
}

func newQuotaSite(t *testing.T, q keptQuota, workers int) *quotaSite {
	t.Helper()
	google, err := fcmtest.NewServer(fcmtest.Options{
		ProjectQuota: fcmtest.Quota{Count: q.count, Per: q.window}, Latency: standin.Latency{Typical: 5 * time.Millisecond},
	})
	rig.Must(t, err)
	t.Cleanup(func() { google.Close() })
	c, err := google.WriteCredentials(t.TempDir())
	rig.Must(t, err)
	server := redistest.Start(t)
	s := &quotaSite{quota: q, client: server.Client(t), fcm: google, workers: make([]*rig.Program, workers)}
	s.Dir = rig.Write(t, "config.yaml", fmt.Sprintf(`
redis: {address: %q}
limits: {default: {min_gap: 0s}}
apps: {shop: {fcm: {credentials_file: %q, endpoint: %q, root_ca_file: %q, quota: {rate: %s}}}}
`, server.Addr(), c.CredentialsFile, c.Endpoint, c.RootCAFile, q.told))
	return s
}

// enqueue puts n notifications on the queue, each of a user of its own.
func (s *quotaSite) enqueue(t *testing.T, n int) {
	t.Helper()
	producer := push.NewProducer(s.client, "", 0)
	const together = 200
	for i := 0; i < n; i += together {
		var batch []*push.Notification
		for k := i; k < min(i+together, n); k++ {
			id := fmt.Sprint("n-", k)
			batch = append(batch, &push.Notification{
				ID: id, App: "shop", User: id, Title: "hello", Targets: []push.Target{{Platform: push.FCM, Token: id}},
			})
		}
		for _, r := range producer.EnqueueAll(t.Context(), batch) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
}

// watchTrips tells for what share of the time Redis took longer to answer than half the
// life of a unit that it is asked for.
func (s *quotaSite) watchTrips(t *testing.T, stop <-chan struct{}, share chan<- float64) {
	rate, err := throttle.ParseRate(s.quota.told)
	if err != nil {
		t.Error(err)
	}
	life := meter.Spec{Rates: []throttle.Rate{rate}}.Promise().Life
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	began, slow := time.Now(), time.Duration(0)
	for {
		select {
		case <-stop:
			share <- slow.Seconds() / time.Since(began).Seconds()
			return
		case <-ticker.C:
		}
		asked := time.Now()
		s.client.Ping(t.Context())
		if trip := time.Since(asked); trip > life/2 {
			slow += trip
		}
	}
}

func (s *quotaSite) begin(t *testing.T) {
	t.Helper()
	for i := range s.workers {
		s.workers[i] = rig.Start(t, s.Setup, "serve")
	}
}

// run kills a worker every 5 s, and starts another in its place, until then.
func (s *quotaSite) run(t *testing.T, until time.Time) {
	t.Helper()
	const every = 5 * time.Second
	for time.Until(until) > every {
		time.Sleep(every)
		victim := &s.workers[s.killed%len(s.workers)]
		rig.Must(t, (*victim).Cmd.Process.Signal(syscall.SIGKILL))
		<-(*victim).Done
		*victim = rig.Start(t, s.Setup, "serve")
		s.killed++
	}
	time.Sleep(time.Until(until))
}

// end ends the workers, and expects that nothing is lost of what was accepted. A killed worker
// may leave the job of an ended notification in flight.
func (s *quotaSite) end(t *testing.T, accepted int64) {
	t.Helper()
	for _, w := range s.workers {
		w.Terminate(t)
	}
	for _, w := range s.workers {
		if got := w.Wait(t); got != rig.Done {
			t.Errorf("exit status %d: %s", got, &w.Stderr)
		}
	}
	p := rig.Start(t, s.Setup, "audit", "--json")
	status := p.Wait(t)
	var audit control.Audit
	if err := json.Unmarshal([]byte(p.Stdout.String()), &audit); err != nil || status != rig.Done || audit.Difference > 0 || audit.Balance() != control.Balanced || audit.Accepted != accepted {
		t.Errorf("audit: exit status %d: %s%s, %v", status, &p.Stdout, &p.Stderr, err)
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
