//go:build unix

package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/racing"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/violations"
	"github.com/pushpace/pushpace/providers/apns/apnstest"
	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

// Workers are killed three times, Redis once, and a provider fails for a while,
// while some notifications expire, are superseded and cancelled. Nothing is lost,
// nothing exceeds a limit, what is delivered twice was being sent at a kill, and
// nothing that was sent ends as not sent.
func TestCrashes(t *testing.T) {
	aboutProcesses(t, "takes minutes")
	t.Parallel()
	const users, each, kills = 200, 25, 3
	const between = 800 // deliveries from one kill to the next
	policy := throttle.Policy{MinGap: 300 * time.Millisecond, Rates: []throttle.Rate{{Count: 10, Period: 5 * time.Second}}}
	c := newCrashSite(t, policy, 5*time.Millisecond)
	workers := []*program{c.serve(t), c.serve(t), c.serve(t)}
	stop, longest := make(chan struct{}), make(chan time.Duration)
	go watchStalls(stop, longest)

	producer := push.NewProducer(c.client, "", 0)
	var producers sync.WaitGroup
	for p := range 8 {
		producers.Go(func() {
			for i := p; i < users*each; i += 8 {
				c.enqueue(t, producer, i, fmt.Sprintf("user-%d", i%users))
				if fateOf(i) == cancelled {
					c.cancel(t, producer, fmt.Sprintf("n-%d", i))
				}
			}
		})
	}
	underWay := int64(0) // at the kills
	for kill := range kills {
		before := c.delivered()
		if !eventually.Within(3*time.Minute, func() bool { return c.delivered() >= before+between }) {
			t.Fatalf("%d deliveries since the last kill: %s", c.delivered()-before, &workers[kill].stderr)
		}
		underWay += c.kill(t, workers[kill])
		workers[kill] = c.serve(t)
		switch kill {
		case 0:
			c.server.Kill(t)
			c.server.Restart(t)
		case 1:
			c.apns.RespondAlways(standin.Answer{Status: http.StatusServiceUnavailable})
			time.AfterFunc(2*time.Second, c.apns.Recover)
		}
	}
	producers.Wait()
	c.drained(t, users*each)
	for _, w := range workers {
		w.terminate(t)
		if got := w.wait(t, 25*time.Second); got != exitDone {
			t.Errorf("exit status %d: %s", got, &w.stderr)
		}
	}
	close(stop)
	stall := <-longest

	audit := start(t, c.setup, "audit", "--json")
	if status := audit.wait(t, 10*time.Second); status != exitDone {
		t.Errorf("audit: exit status %d: %s%s", status, &audit.stdout, &audit.stderr)
	}
	admitted := admissions(t, c.client, "shop", users, c.sent())
	if found := violations.Find(slices.Clone(admitted), policy, nil, time.Millisecond); len(found) > 0 {
		t.Errorf("%d of %d admissions exceed the limits: %+v", len(found), len(admitted), found)
	}
	// A push comes as late after its admission as the machine holds it up, and not
	// as late as what a crash leaves behind.
	c.judge(t, users*each, underWay, policy, time.Second+stall, admitted)
}

// aboutProcesses skips a test of what processes do where it would take too long,
// or races are looked for.
func aboutProcesses(t *testing.T, takes string) {
	t.Helper()
	switch {
	case testing.Short():
		t.Skip(takes)
	case racing.Watched:
		t.Skip("shows what processes do; races show elsewhere")
	}
}

// A crashSite is a Redis that can be killed, and stand-ins inside the test.
type crashSite struct {
	setup
	server *redistest.Server // nil on a Cluster
	client redis.UniversalClient
	apns   *apnstest.Server
	fcm    *fcmtest.Server
	digests
}

func newCrashSite(t *testing.T, policy throttle.Policy, typical time.Duration) *crashSite {
	t.Helper()
	server := redistest.Start(t, redistest.AppendOnly())
	c := standInsBeside(t, strconv.Quote(server.Addr()), policy, typical)
	c.server, c.client = server, server.Client(t)
	return c
}

// standInsBeside is a crashSite on the Redis of that address, without a client.
func standInsBeside(t *testing.T, address string, policy throttle.Policy, typical time.Duration) *crashSite {
	t.Helper()
	c := new(crashSite)
	latency := standin.Latency{Typical: typical}
	apns, err := apnstest.NewServer(apnstest.Options{Latency: latency})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { apns.Close() })
	fcm, err := fcmtest.NewServer(fcmtest.Options{Latency: latency, Seen: c.see})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fcm.Close() })
	dir := t.TempDir()
	apnsConfig, err := apns.WriteCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	fcmConfig, err := fcm.WriteCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	rates := make([]string, len(policy.Rates))
	for i, r := range policy.Rates {
		rates[i] = r.String()
	}
	c.apns, c.fcm = apns, fcm
	c.dir = write(t, "config.yaml", fmt.Sprintf(`
redis: {address: %s}
limits:
  default: {min_gap: %s, rates: [%s]}
apps:
  shop:
    apns: {topic: %s, environment: production, key_file: %q, key_id: %s, team_id: %s, endpoint: %q, root_ca_file: %q}
    fcm: {credentials_file: %q, endpoint: %q, root_ca_file: %q}
`, address, policy.MinGap, strings.Join(rates, ", "),
		apnsConfig.Topic, apnsConfig.KeyFile, apnsConfig.KeyID, apnsConfig.TeamID, apnsConfig.Endpoint, apnsConfig.RootCAFile,
		fcmConfig.CredentialsFile, fcmConfig.Endpoint, fcmConfig.RootCAFile))
	return c
}

func (c *crashSite) serve(t *testing.T) *program {
	t.Helper()
	p := start(t, c.setup, "serve")
	p.until(t, "serving", func() bool { return strings.Contains(p.stderr.String(), "serving") })
	return p
}

// enqueue tries until Redis takes it.
func (c *crashSite) enqueue(t *testing.T, producer *push.Producer, i int, user string) {
	n := &push.Notification{
		ID: fmt.Sprintf("n-%d", i), App: "shop", User: user, Title: "hello",
		Targets: []push.Target{{Platform: push.APNs, Token: fmt.Sprintf("%064x", i)}},
	}
	if i%2 == 1 {
		n.Targets[0] = push.Target{Platform: push.FCM, Token: fmt.Sprintf("device-%d", i)}
	}
	switch fateOf(i) {
	case expiring:
		n.TTL = push.Duration(20 * time.Second)
	case collapsing:
		n.CollapseKey = "latest"
	}
	var err error
	if !eventually.Within(time.Minute, func() bool {
		_, err = producer.Enqueue(t.Context(), n)
		return err == nil
	}) {
		t.Errorf("%s is not accepted: %v", n.ID, err)
	}
}

// A fate is what is meant to happen to some of the notifications, unless they are
// sent before.
type fate int

const (
	sent fate = iota
	expiring
	collapsing
	cancelled
)

// fateOf returns it by the notification's number: a user has some of each, and so
// have those that are sent at about the same time.
func fateOf(i int) fate {
	switch (i/200 + i) % 5 {
	case 1:
		return expiring
	case 2:
		return collapsing
	case 3:
		return cancelled
	}
	return sent
}

// cancel tries until it is answered.
func (c *crashSite) cancel(t *testing.T, producer *push.Producer, id string) {
	var err error
	if !eventually.Within(time.Minute, func() bool {
		err = producer.Cancel(t.Context(), id)
		return err == nil || errors.Is(err, push.ErrEnded) || errors.Is(err, push.ErrUnderWay)
	}) {
		t.Errorf("the cancel of %s is not answered: %v", id, err)
	}
}

// delivered is how many pushes the stand-ins have taken.
func (c *crashSite) delivered() int { return c.apns.Ledger().Len() + c.fcm.Ledger().Len() }

// kill ends the worker as a crash does, and answers how many notifications the
// workers had sent or were sending whose end was not recorded.
func (c *crashSite) kill(t *testing.T, p *program) int64 {
	t.Helper()
	counts, err := ledger.NewRecords(c.client, "", 0).Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.done
	underWay := c.apns.Count().InFlight + c.fcm.Count().InFlight
	return underWay + int64(len(c.sent())) - counts.Ended[push.Delivered]
}

// sent are the IDs in the ledgers.
func (c *crashSite) sent() map[string]bool {
	sent := map[string]bool{}
	for _, e := range append(c.apns.Ledger().Entries(), c.fcm.Ledger().Entries()...) {
		sent[e.Notification] = true
	}
	return sent
}

// drained waits until all have ended.
func (c *crashSite) drained(t *testing.T, n int) {
	t.Helper()
	records := ledger.NewRecords(c.client, "", 0)
	if !eventually.Within(5*time.Minute, func() bool {
		counts, err := records.Counts(t.Context())
		return err == nil && counts.Accepted == int64(n) && counts.Waiting() == 0
	}) {
		counts, _ := records.Counts(t.Context())
		t.Fatalf("not all have ended: %+v", counts)
	}
}

// judge compares the ledgers with what was accepted.
func (c *crashSite) judge(t *testing.T, accepted int, underWay int64, policy throttle.Policy, tolerance time.Duration, admitted []violations.Push) {
	t.Helper()
	entries := append(c.apns.Ledger().Entries(), c.fcm.Ledger().Entries()...)
	slices.SortFunc(entries, func(a, b standin.Entry) int { return a.At.Compare(b.At) })
	seen := map[string]bool{}
	var pushes []violations.Push
	duplicates, again := int64(0), map[string]bool{} // again are the users who got one
	for _, e := range entries {
		var i int
		if _, err := fmt.Sscanf(e.Notification, "n-%d", &i); err != nil {
			t.Fatalf("a push of %q", e.Notification)
		}
		user := fmt.Sprintf("user-%d", i%200)
		if seen[e.Notification] {
			duplicates++
			again[user] = true
			continue
		}
		seen[e.Notification] = true
		pushes = append(pushes, violations.Push{App: "shop", User: user, At: e.At})
	}
	ends := c.judgeEnds(t, accepted, seen)
	if len(admitted) < len(seen) {
		t.Errorf("%d admissions of %d that were sent", len(admitted), len(seen))
	}
	// Besides what the stand-ins know of there is what is on its way to them: a
	// few at each kill, as the workers share two processors.
	if duplicates > underWay+30 {
		t.Errorf("%d duplicates, %d were under way at the kills", duplicates, underWay)
	}
	notBefore(t, admitted, pushes, again) // of what is sent twice, the second is admitted
	if found := violations.Find(pushes, policy, nil, tolerance); len(found) > 0 {
		t.Errorf("%d violations with a tolerance of %s, such as %+v", len(found), tolerance, found[0])
	}
	t.Logf("%d sent, %d duplicates, %d under way at the kills, tolerance %s, ends %v", len(seen), duplicates, underWay, tolerance, ends)
}

// judgeEnds compares how each ended with whether it was sent.
func (c *crashSite) judgeEnds(t *testing.T, accepted int, sentOnes map[string]bool) map[push.State]int {
	t.Helper()
	records := ledger.NewRecords(c.client, "", 0)
	allowed := map[fate]push.State{expiring: push.Expired, collapsing: push.Superseded, cancelled: push.Cancelled}
	ends := map[push.State]int{}
	for i := range accepted {
		id := fmt.Sprintf("n-%d", i)
		record, _, err := records.Lookup(t.Context(), ledger.Ref{ID: id})
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		ends[record.State]++
		doubtful := len(record.Outcomes) == 1 && record.Outcomes[0].Ambiguous
		switch {
		case record.State == push.Delivered && !sentOnes[id]:
			t.Errorf("%s ended as delivered, and was not sent", id)
		case record.State != push.Delivered && record.State != allowed[fateOf(i)]:
			t.Errorf("%s ended as %s: %+v", id, record.State, record)
		case record.State != push.Delivered && sentOnes[id] && !doubtful:
			t.Errorf("%s was sent, and ended as %s as if it was not: %+v", id, record.State, record.Outcomes)
		}
	}
	return ends
}

// clockError is how far the limiter's clock may be from the stand-ins'.
const clockError = 10 * time.Millisecond

// notBefore checks that no push came before its admission, of other users than those.
func notBefore(t *testing.T, admitted, pushes []violations.Push, others map[string]bool) {
	t.Helper()
	admissions := byUser(admitted)
	for user, at := range byUser(pushes) {
		for i, admission := range admissions[user] {
			if i < len(at) && !others[user] && at[i].Before(admission.Add(-clockError)) {
				t.Errorf("a push of %s came at %s, and was admitted at %s", user, at[i], admission)
			}
		}
	}
}

// byUser returns when each user's came, in order.
func byUser(pushes []violations.Push) map[string][]time.Time {
	all := map[string][]time.Time{}
	for _, p := range pushes {
		all[p.User] = append(all[p.User], p.At)
	}
	for _, at := range all {
		slices.SortFunc(at, time.Time.Compare)
	}
	return all
}

// Workers end in time although Redis accepts and does not answer, and pushes
// that were under way end meanwhile.
func TestServeDrainsWhileRedisHangs(t *testing.T) {
	t.Parallel()
	const sent = 20
	c := newCrashSite(t, throttle.Policy{}, time.Second)
	const timeout = 2 * time.Second
	c.env = append(c.env, "PUSHPACE_WORKER__SHUTDOWN_TIMEOUT="+timeout.String(), "PUSHPACE_APPS__DEMO__SIMULATED=true",
		"PUSHPACE_APPS__SHOP__APNS__TIMEOUT=1.9s", "PUSHPACE_APPS__SHOP__FCM__TIMEOUT=1.9s")
	worker := c.serve(t)
	producer := push.NewProducer(c.client, "", 0)
	for i := range sent {
		c.enqueue(t, producer, 2*i, fmt.Sprintf("user-%d", i))
	}
	worker.until(t, "pushes under way", func() bool { return c.apns.Count().InFlight > 0 })
	c.server.Pause(t)
	resume := sync.OnceFunc(func() { c.server.Resume(t) })
	defer resume()
	worker.terminate(t)
	const exiting = 8 * time.Second // the race detector has a program linger
	if got := worker.wait(t, timeout+exiting); got != exitDone || !strings.Contains(worker.stderr.String(), "puts it back within seconds") {
		t.Errorf("exit status %d: %s", got, &worker.stderr)
	}
	resume()
	counts, err := ledger.NewRecords(c.client, "", 0).Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	queue, err := asynq.NewInspectorFromRedisClient(c.client).GetQueueInfo(push.Default.Queue())
	if err != nil {
		t.Fatal(err)
	}
	if left := int64(queue.Size); counts.Accepted != sent || left < counts.Waiting() || left+counts.Ended[push.Delivered] < sent {
		t.Errorf("%d jobs are left of %+v", left, counts)
	}
}
