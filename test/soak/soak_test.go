//go:build soak && unix

package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/quiet"
)

// Everything fails at once: workers, producers and Redis are killed, frozen and stopped, providers
// fail and give false answers, and jobs are hostile. Operators change limits, pause, mute, cancel and
// requeue, and quiet hours begin and end. Nothing is lost, no user receives more than the limits allow
// or a push in quiet hours, a digest names its members, only pushes in flight at a trouble are sent
// twice, and the audit is always right.
func TestSoak(t *testing.T) {
	length, seed := lasts(10*time.Minute, 20*time.Second), *seeded
	s := &soak{skewed: rig.Binary}
	if !testing.Short() {
		s.skewed = buildSkewed(t)
	}
	t.Logf("-for %s -seed %d", length, seed)
	s.begin(t, seed, length)
	s.run(t, soakPlan(seed, length), length)
	s.rest(t)
	s.judge(t)
}

// A soak is a CrashSite with records for judge.
type soak struct {
	*rig.CrashSite
	seed    uint64
	news    throttle.Policy // policy of the category news
	skewed  string          // the program from buildSkewed
	url     string          // of the API
	workers []*rig.Program
	api     *rig.Program
	http    *http.Client

	mu       sync.Mutex
	accepted map[string]bool // by ID
	underWay map[string]bool // pushes that were in flight when a trouble began
	windows  []window
	hostile  int
	broken   []string // wrong-typed keys
	wolves   []string // audits that wrongly reported a missing notification during the soak
	audits   int      // audits that succeeded during the soak
	next     atomic.Int64
	beside   sync.WaitGroup // goroutines other than the plan's
}

// A window is the time of a trouble.
type window struct {
	from, to time.Time
	why      mishapKind
}

const soakWorkers = 3

func (s *soak) begin(t *testing.T, seed uint64, length time.Duration) {
	t.Helper()
	s.seed, s.accepted, s.underWay = seed, map[string]bool{}, map[string]bool{}
	s.CrashSite = rig.NewCrashSite(t, soakDefault, 5*time.Millisecond)
	s.news = throttle.Policy{Quiet: soakHours(t, time.Now(), length), Night: quiet.Night{Zone: time.UTC}}
	hours, err := json.Marshal(s.news.Quiet)
	rig.Must(t, err)
	address := redistest.FreeAddress(t)
	s.url = "http://" + address
	file := filepath.Join(s.Dir, "config.yaml")
	text, err := os.ReadFile(file)
	rig.Must(t, err)
	categories := fmt.Sprintf("  time_zone: UTC\n  quiet_hours_spread: 0s\n  categories: {orders: {rates: [%s]}, %s: {rates: [%s]}, %s: {exempt: true}, %s: {quiet_hours: %s}}\napps:",
		soakOrders.Rates[0], rare, soakRare.Rates[0], security, news, hours)
	extended := strings.Replace(string(text), "apps:", categories, 1) + fmt.Sprintf(`
    dead_tokens: {webhook: {url: "http://%s/nowhere", secret: whsec_soaksoaksoaksoaksoaksoaksoaksoak}}
worker: {attempts: 4, shutdown_timeout: 10s}
http: {listen: %q}
log: {level: warn}
`, address, address)
	rig.Must(t, os.WriteFile(file, []byte(extended), 0o600))
	s.Env = append(s.Env, "PUSHPACE_APPS__SHOP__APNS__TIMEOUT=2s", "PUSHPACE_APPS__SHOP__FCM__TIMEOUT=2s")
	s.http = &http.Client{Timeout: 3 * time.Second}
	t.Cleanup(s.http.CloseIdleConnections)
	s.workers = make([]*rig.Program, soakWorkers)
	s.supervise(t)
}

// supervise restarts ended processes, as systemd does.
func (s *soak) supervise(t *testing.T) {
	t.Helper()
	has := func(p *rig.Program) bool {
		if p == nil {
			return false
		}
		select {
		case <-p.Done:
			if text := p.Stderr.String(); strings.Contains(text, "panic:") || strings.Contains(text, "fatal error:") {
				t.Errorf("a program has panicked: %s", text)
			}
			return false
		default:
			return true
		}
	}
	for i, w := range s.workers {
		if has(w) {
			continue
		}
		with := s.Setup
		with.Program = s.skewed // worker 1 has the right clock, the others are wrong by 2 s
		with.Env = append(with.Env[:len(with.Env):len(with.Env)], fmt.Sprint("CLOCK_SKEW_SECONDS=", 2*(i-1)))
		s.workers[i] = rig.Start(t, with, "serve", "--only", "worker")
	}
	if !has(s.api) {
		s.api = rig.Start(t, s.Setup, "serve", "--only", "api")
	}
}

// run carries out the plan while producers enqueue notifications.
func (s *soak) run(t *testing.T, plan []mishap, length time.Duration) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	for range 4 {
		s.beside.Go(func() { s.produce(ctx, t) })
	}
	s.beside.Go(func() { s.produceLines(ctx, t) })
	auditing, enough := context.WithCancel(t.Context())
	defer enough()
	s.beside.Go(func() { s.auditInMotion(auditing) })

	began := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var repairs []repair
	for now := range tick.C {
		s.supervise(t)
		due, left := repairs, repairs[:0:0]
		for _, r := range due {
			if now.Before(r.at) {
				left = append(left, r)
				continue
			}
			r.mend()
			s.note(r.began, time.Now(), r.why)
		}
		repairs = left
		if now.Sub(began) > length && len(plan) == 0 && len(repairs) == 0 {
			break
		}
		// one mishap at a time: with Redis away each may take seconds, and repairs come first
		if len(plan) == 0 || now.Sub(began) < plan[0].At ||
			redisMishap(plan[0].Kind) && slices.ContainsFunc(repairs, func(r repair) bool { return redisMishap(r.why) }) {
			continue // the machine is slower than the plan
		}
		if mend := s.cause(t, plan[0]); mend != nil {
			repairs = append(repairs, repair{now.Add(plan[0].For), plan[0].Kind, now, mend})
		}
		plan = plan[1:]
	}
	stop()
	enough()
	s.beside.Wait()
}

// redisMishap reports whether the mishap is one of redisMishaps.
func redisMishap(kind mishapKind) bool { return slices.Contains(redisMishaps, kind) }

// A repair ends a trouble.
type repair struct {
	at    time.Time
	why   mishapKind
	began time.Time
	mend  func()
}

func (s *soak) note(from, to time.Time, why mishapKind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.windows = append(s.windows, window{from, to, why})
}

// program runs the program, and kills it after the time within. Other goroutines than the test's may
// call it.
func (s *soak) program(within time.Duration, stdin io.Reader, args ...string) (status int, out string) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, rig.Binary, args...)
	cmd.Dir, cmd.Stdin = s.Dir, stdin
	cmd.Env = append(os.Environ(), s.Env...)
	text, _ := cmd.CombinedOutput() // the exit status has the error
	return cmd.ProcessState.ExitCode(), string(text)
}

// auditInMotion runs the audit every second during the soak.
func (s *soak) auditInMotion(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		status, out := s.program(20*time.Second, nil, "audit", "--json")
		if status != rig.Done && status != rig.Violated {
			continue // Redis may be away
		}
		var audit inspect.Audit
		err := json.Unmarshal([]byte(out), &audit)
		s.mu.Lock()
		s.audits++
		// hostile jobs are on the queue but were never accepted
		if err != nil || status == rig.Violated && (audit.Difference > 0 || -audit.Difference > audit.InFlight+int64(s.hostile)) {
			s.wolves = append(s.wolves, out)
		}
		s.mu.Unlock()
	}
}

// rest ends all troubles, sends every user a second rare notification, and waits until all
// notifications have ended.
func (s *soak) rest(t *testing.T) {
	t.Helper()
	s.APNs.Recover()
	s.FCM.Recover()
	s.supervise(t)
	s.settled(t)
	for i := range soakUsers {
		n := &push.Notification{
			ID: fmt.Sprint("last-", i), App: "shop", User: fmt.Sprint("user-", i), Category: rare, Title: "hello", TTL: push.Duration(3 * time.Second),
			Targets: []push.Target{{Platform: push.FCM, Token: fmt.Sprint("last-", i)}},
		}
		s.hand(t, n, s.enqueue)
	}
	s.settled(t)
	for _, w := range append(s.workers, s.api) {
		w.Terminate(t)
	}
	for _, w := range append(s.workers, s.api) {
		if got := w.Wait(t); got != rig.Done {
			t.Errorf("exit status %d: %s", got, &w.Stderr)
		}
	}
}

// inHand returns the jobs that workers have claimed, or had claimed when they were killed. Jobs of a
// killed worker return to the queue within seconds, even if their notifications have ended.
func (s *soak) inHand(ctx context.Context) (jobs []string) {
	for _, queue := range shard.NewShards(s.Client, "", 1)[0].Queues() {
		for _, id := range s.Client.LRange(ctx, shard.QueueKey(queue, "active"), 0, -1).Val() {
			jobs = append(jobs, fmt.Sprintf("%s of %s, claimed by %s", id, queue, s.Client.HGet(ctx, shard.QueueKey(queue, "t:"+id), "worker").Val()))
		}
	}
	return jobs
}

// settled waits until all notifications have ended and no job is in flight.
func (s *soak) settled(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	for _, key := range s.broken {
		rig.Must(t, s.Client.Del(ctx, key).Err())
	}
	for _, args := range [][]string{{"resume", "--app", "shop", "--platform", "apns"}, {"resume", "--app", "shop", "--platform", "fcm"},
		{"resume", "--app", "shop"}, {"resume", "--category", "orders"}, {"resume", "--category", rare}} {
		s.program(10*time.Second, nil, args...) // fails if nothing is paused
	}
	records := store.NewRecords(s.Client, "", 0)
	if !eventually.Within(16*time.Minute, func() bool { // the longest pause between two attempts is a quarter of an hour
		s.supervise(t)
		counts, err := records.Counts(ctx)
		return err == nil && counts.Accepted >= int64(len(s.accepted)) && counts.Waiting() == 0 && len(s.inHand(ctx)) == 0
	}) {
		counts, _ := records.Counts(ctx)
		t.Errorf("not all have ended: %+v; in hand: %q", counts, s.inHand(ctx))
		for id := range s.accepted {
			if record, _, err := records.Lookup(ctx, store.Ref{ID: id}); err != nil || !record.State.Ended() {
				_, out := s.program(10*time.Second, nil, "status", id)
				t.Fatalf("such as %s: %s", id, out)
			}
		}
		t.FailNow()
	}
}
