//go:build e2e && unix

package e2e

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
)

// Two processes together send at a quota's rate, and at a new rate after the configuration changes.
// The status of each waiting notification names the quota.
func TestServeQuota(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	s.Simulate(t)
	const app = "  demo: {simulated: true} "
	quota := func(rate string) string {
		return "  demo: {simulated: false, apns: {quota: {rate: " + rate + ", algorithm: sliding_window}}} "
	}
	s.Configure(t, app, quota("3/1h"))
	workers := [2]*rig.Program{s.Serve(t), s.Serve(t)}
	var input strings.Builder
	for i := range 8 {
		input.WriteString(rig.Notification(fmt.Sprint("n", i), fmt.Sprint("u", i), "chat", "apns", "00"))
	}
	s.Send(t, input.String())
	withinQuota(t, s, workers[0], 8, 3)
	s.Configure(t, app, quota("5/1h"))
	for _, p := range workers {
		p.HangUp(t)
		p.Says(t, 1, "the configuration is reloaded", `changed="apps.demo.apns.quota.rate: 3/1h → 5/1h"`)
	}
	s.Send(t, rig.Notification("n8", "u8", "chat", "apns", "00")+rig.Notification("n9", "u9", "chat", "apns", "00"))
	withinQuota(t, s, workers[0], 10, 5)
	s.Configure(t, app, "  demo: {simulated: false} ")
	for _, p := range workers {
		p.HangUp(t)
		p.Says(t, 1, "take effect at the next start", "apps.demo.apns.quota: {rate: 3/1h, algorithm: sliding_window} → none")
	}
	s.Stop(t, workers[:]...)
}

// withinQuota waits until each of n notifications is sent, or waits for its quota by `waiting`. Sent
// are most, or after ten seconds fewer, because units expire while the machine stalls.
func withinQuota(t *testing.T, s *rig.Site, worker *rig.Program, n, most int) {
	t.Helper()
	pushes, waiting := 0, rig.Finished{}
	told := func() bool {
		pushes, waiting = len(s.Ledger(t)), rig.Run(t, s.Setup, "waiting")
		return pushes+strings.Count(waiting.Stdout, "  quota  ") == n
	}
	if !eventually.Within(10*time.Second, func() bool { return told() && pushes >= most }) && !eventually.Within(eventually.Patience, told) {
		t.Fatalf("%d are sent, and of %d the others wait as these say: %s%s\n%s", pushes, n, waiting.Stdout, waiting.Stderr, &worker.Stderr)
	}
	if pushes > most {
		t.Errorf("%d pushes, want %d at most", pushes, most)
	}
}

// Processes that start, stop, freeze and are killed together never have more pushes in flight than the
// provider's concurrency, and soon afterwards use all of it.
func TestProcessesShareConcurrency(t *testing.T) {
	t.Parallel()
	const places, n = 12, 4000
	c := rig.NewCrashSite(t, throttle.Policy{}, 300*time.Millisecond)
	c.Env = append(c.Env, fmt.Sprintf("PUSHPACE_APPS__SHOP__APNS__CONCURRENCY=%d", places))
	producer := push.NewProducer(c.Client, "", 0)
	var producers sync.WaitGroup
	for p := range 8 {
		producers.Go(func() {
			for i := p; i < n; i += 8 {
				c.Enqueue(t, producer, 2*i, fmt.Sprintf("user-%d", i))
			}
		})
	}
	// full waits until as many pushes as allowed are in flight. If gone is true, it first waits until
	// the ended process's pushes are gone. On a free machine that takes four seconds at most.
	full := func(what string, gone bool) {
		t.Helper()
		began := time.Now()
		if !eventually.Within(eventually.Patience, func() bool { return !gone || c.APNs.Count().InFlight <= places-places/4 }) {
			t.Fatalf("%s: %d are still in flight", what, c.APNs.Count().InFlight)
		}
		if !eventually.Within(eventually.Patience, func() bool { return c.APNs.Count().InFlight == places }) {
			t.Fatalf("%s: %d are in flight, of %d", what, c.APNs.Count().InFlight, places)
		}
		t.Logf("%s: the concurrency is used up after %s", what, time.Since(began))
	}
	// shared waits until n processes have a part of the concurrency
	shared := func(n int) {
		t.Helper()
		if !eventually.Within(eventually.Patience, func() bool {
			having := 0
			for _, part := range c.Client.HVals(t.Context(), "pushpace:{share/shop%2Fapns}").Val() {
				if strings.Fields(part)[1] != "0" {
					having++
				}
			}
			return having == n
		}) {
			t.Fatalf("%d processes do not have a share each", n)
		}
	}
	workers := []*rig.Program{c.Serve(t)}
	full("one", false)
	workers = append(workers, c.Serve(t), c.Serve(t))
	shared(3)
	producers.Wait()
	signal := func(w *rig.Program, s os.Signal) {
		t.Helper()
		rig.Must(t, w.Cmd.Process.Signal(s))
	}
	signal(workers[1], syscall.SIGSTOP)
	full("one stands still", true)
	signal(workers[1], syscall.SIGCONT)
	shared(3)
	for _, w := range workers[1:] {
		signal(w, syscall.SIGKILL)
		<-w.Done
		full("one is killed", true)
	}
	workers = append(workers, c.Serve(t))
	shared(2)
	workers[0].Terminate(t)
	if got := workers[0].Wait(t); got != rig.Done {
		t.Errorf("exit status %d: %s", got, &workers[0].Stderr)
	}
	full("one has left", false)
	if peak := c.APNs.Count().Peak; peak != places {
		t.Errorf("%d were in flight at once, want %d", peak, places)
	}
}
