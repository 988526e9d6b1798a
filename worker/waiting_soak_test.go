//go:build soak && unix

package worker_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// processorTime returns the CPU time of this process.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// A waitingSender delivers, or hangs until it is released. It records the time of each push.
type waitingSender struct {
	hangs chan struct{} // closed to release it; nil for a sender that never hangs

	mu   sync.Mutex
	came map[string]time.Time // by ID
}

func (s *waitingSender) Send(ctx context.Context, n *push.Notification, _ push.Target, _ providers.Departure) providers.Outcome {
	if s.hangs != nil {
		select {
		case <-s.hangs:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.came[n.ID] = time.Now()
	return providers.Outcome{Kind: providers.Delivered, Reason: providers.OK}
}

func (*waitingSender) Close() error { return nil }

func (s *waitingSender) at(id string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.came[id]
}

// One of 200 apps is stuck, with 20,000 waiting notifications. Notifications of the other apps leave at
// once, and the waiting ones cost almost no CPU time.
func TestStuckAppDelaysNoOtherApp(t *testing.T) {
	const apps, waiting, fresh = 200, 20_000, 2000
	r := newRig(t, redistest.Own(t), unlimited)
	stuck, others := &waitingSender{hangs: make(chan struct{}), came: map[string]time.Time{}}, &waitingSender{came: map[string]time.Time{}}
	r.options.Senders = map[string]map[push.Platform]providers.Sender{"stuck": {push.APNs: stuck}}
	for i := range apps - 1 {
		r.options.Senders[fmt.Sprint("app-", i)] = map[push.Platform]providers.Sender{push.APNs: others, push.FCM: others}
	}
	r.start()
	idle := func() time.Duration {
		before := processorTime(t)
		time.Sleep(5 * time.Second)
		return processorTime(t) - before
	}
	nothing := idle()
	r.enqueueAll("stuck", waiting, func(_ int, n *push.Notification) { n.App = "stuck" })
	time.Sleep(5 * time.Second)
	beside := idle()
	t.Logf("in 5 s an idle worker takes %s of CPU time, and %s with %d waiting", nothing, beside, waiting)
	if beside > 2*nothing+50*time.Millisecond {
		t.Errorf("the waiting ones cost %s in 5 s, an idle worker %s", beside, nothing)
	}
	delays := make([]time.Duration, fresh)
	accepted := make([]time.Time, fresh)
	for i := range fresh {
		n := to(fmt.Sprint("fresh-", i), apple)
		n.App, n.User = fmt.Sprint("app-", i%(apps-1)), n.ID
		accepted[i] = time.Now()
		r.enqueue(n)
		time.Sleep(2 * time.Millisecond)
	}
	for i := range delays {
		id := fmt.Sprint("fresh-", i)
		wait(t, func() bool { return !others.at(id).IsZero() })
		delays[i] = others.at(id).Sub(accepted[i])
	}
	slices.Sort(delays)
	t.Logf("the others' leave after %s, p99 %s", delays[fresh/2], delays[fresh*99/100])
	if p50 := delays[fresh/2]; p50 > 100*time.Millisecond {
		t.Errorf("the others' leave after %s", p50)
	}
	close(stuck.hangs)
	if counts := r.settled(waiting + fresh); counts.Ended[push.Delivered] != waiting+fresh {
		t.Errorf("counts %+v", counts)
	}
}

// A route closes and opens ten times a minute for ten minutes, with 10,000 waiting notifications at
// each opening, and each is sent once. When the route closes, the pushes in flight fail. While it is
// closed, only the probes fail.
func TestFlappingRouteSendsEachNotificationOnce(t *testing.T) {
	const waiting, most, lasts = 10_000, 32, 3 * time.Second
	flaps := 100
	if testing.Short() {
		flaps = 10
	}
	r := newRig(t, redistest.Own(t), unlimited)
	r.options.Concurrency = most
	r.start()
	down := standin.Answer{Status: http.StatusServiceUnavailable}
	r.apns.RespondAlways(down)
	n := 0
	began := time.Now()
	for range flaps {
		more := make([]*push.Notification, waiting-(n-len(r.apns.Ledger().Entries())))
		for i := range more {
			more[i] = to(fmt.Sprint("n-", n+i), devices(n+i, apple)...)
			more[i].User = more[i].ID
		}
		r.enqueueTogether(more)
		n += len(more)
		time.Sleep(lasts)
		r.apns.Recover()
		time.Sleep(lasts)
		r.apns.RespondAlways(down)
	}
	closed := time.Since(began)/2 + lasts
	r.apns.Recover()
	if counts := r.settled(n); counts.Ended[push.Delivered] != int64(n) {
		t.Errorf("counts %+v", counts)
	}
	sent := map[string]int{}
	for _, e := range r.pushed("") {
		sent[e.Notification]++
	}
	received := r.apns.Count().Received
	failed := received - int64(len(r.pushed("")))
	t.Logf("%d pushes of %d have failed, at %d openings", failed, received, flaps+1)
	if len(sent) != n || len(r.pushed("")) != n {
		t.Errorf("%d pushes of %d notifications, of %d", len(r.pushed("")), len(sent), n)
	}
	if bound := int64(flaps+1)*(most+20) + int64(closed/time.Second); failed > bound {
		t.Errorf("%d attempts have failed, want at most %d", failed, bound)
	}
	attempts := int64(0)
	for i := range n {
		attempts += int64(r.record(fmt.Sprint("n-", i)).Attempts)
	}
	if attempts != received {
		t.Errorf("%d attempts are counted of %d pushes", attempts, received)
	}
}
