//go:build e2e && unix

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/violations"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/judge"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// Workers are killed three times, Redis once, and a provider fails for a while,
// while some notifications expire, are superseded, cancelled and withdrawn. Nothing is lost, and
// nothing exceeds a limit. Only pushes that were under way at a kill are delivered twice,
// and no notification that was sent ends as not sent.
func TestCrashes(t *testing.T) {
	t.Parallel()
	const users, each, kills = 200, 25, 3
	const between = 800 // deliveries from one kill to the next
	policy := throttle.Policy{MinGap: 300 * time.Millisecond, Rates: []throttle.Rate{{Count: 10, Period: 5 * time.Second}}}
	c := rig.NewCrashSite(t, policy, 5*time.Millisecond)
	workers := []*rig.Program{c.Serve(t), c.Serve(t), c.Serve(t)}
	longest := judge.Stalls()

	producer := push.NewProducer(c.Client, "", 0)
	var producers sync.WaitGroup
	for p := range 8 {
		producers.Go(func() {
			for i := p; i < users*each; i += 8 {
				c.Enqueue(t, producer, i, fmt.Sprintf("user-%d", i%users))
				switch {
				case rig.FateOf(i) != rig.Cancelled:
				case i%2 == 0:
					c.Cancel(t, producer, fmt.Sprintf("n-%d", i))
				default:
					c.Withdraw(t, producer, fmt.Sprintf("user-%d", i%users))
				}
			}
		})
	}
	underWay := int64(0) // pushes in flight at the kills
	for kill := range kills {
		before := c.Delivered()
		if !eventually.Within(3*time.Minute, func() bool { return c.Delivered() >= before+between }) {
			t.Fatalf("%d deliveries since the last kill: %s", c.Delivered()-before, &workers[kill].Stderr)
		}
		underWay += c.Kill(t, workers[kill])
		workers[kill] = c.Serve(t)
		switch kill {
		case 0:
			c.Server.Kill(t)
			c.Server.Restart(t)
		case 1:
			c.APNs.RespondAlways(standin.Answer{Status: http.StatusServiceUnavailable})
			time.AfterFunc(2*time.Second, c.APNs.Recover)
		}
	}
	producers.Wait()
	c.Drained(t, users*each)
	c.Stop(t, workers...)
	stall := longest()

	c.Audited(t)
	admitted := judge.Admissions(t, c.Client, "shop", users, c.Sent())
	if found := violations.Find(slices.Clone(admitted), policy, nil, time.Millisecond); len(found) > 0 {
		t.Errorf("%d of %d admissions exceed the limits: %+v", len(found), len(admitted), found)
	}
	// Only the machine's stalls delay a push, not the remains of a crash.
	c.Judge(t, users*each, underWay, policy, time.Second+stall, admitted)
}

// Workers end in time although Redis accepts and does not answer, and pushes in flight end before.
func TestServeDrainsWhileRedisHangs(t *testing.T) {
	t.Parallel()
	const sent = 20
	c := rig.NewCrashSite(t, throttle.Policy{}, time.Second)
	const timeout = 2 * time.Second
	c.Env = append(c.Env, "PUSHPACE_WORKER__SHUTDOWN_TIMEOUT="+timeout.String(), "PUSHPACE_APPS__DEMO__SIMULATED=true",
		"PUSHPACE_APPS__SHOP__APNS__TIMEOUT=1.9s", "PUSHPACE_APPS__SHOP__FCM__TIMEOUT=1.9s")
	worker := c.Serve(t)
	producer := push.NewProducer(c.Client, "", 0)
	for i := range sent {
		c.Enqueue(t, producer, 2*i, fmt.Sprintf("user-%d", i))
	}
	worker.Until(t, "pushes under way", func() bool { return c.APNs.Count().InFlight > 0 })
	c.Server.Pause(t)
	resume := sync.OnceFunc(func() { c.Server.Resume(t) })
	defer resume()
	worker.Terminate(t)
	if got := worker.Wait(t); got != rig.Done || !strings.Contains(worker.Stderr.String(), "returns the rest within seconds") {
		t.Errorf("exit status %d: %s", got, &worker.Stderr)
	}
	resume()
	counts, err := store.NewRecords(c.Client, "", 0).Counts(t.Context())
	rig.Must(t, err)
	queue, err := asynq.NewInspectorFromRedisClient(c.Client).GetQueueInfo(shard.NewShards(c.Client, "", 1)[0].Queue(push.Default.Queue()))
	rig.Must(t, err)
	if left := int64(queue.Size); counts.Accepted != sent || left < counts.Waiting() || left+counts.Ended[push.Delivered] < sent {
		t.Errorf("%d jobs are left of %+v", left, counts)
	}
}

// A worker is killed before it records its pushes. The notifications end in different ways, and their
// records say that they may have been sent. No user receives a second push within the limit's hour.
func TestCrashKeepsUsedAdmissions(t *testing.T) {
	t.Parallel()
	const each = 10
	policy := throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: time.Hour}}}
	c := rig.NewCrashSite(t, policy, 2*time.Second)
	producer, records := push.NewProducer(c.Client, "", 0), store.NewRecords(c.Client, "", 0)
	limiter, err := throttle.New(c.Client, throttle.Options{})
	rig.Must(t, err)
	t.Cleanup(func() { limiter.Close() })
	control := control.New(c.Client, records, limiter, limits.New(policy, nil))
	inspector := inspect.New(c.Client, records, limiter, limits.New(policy, nil))
	fates := map[string]push.State{"expires": push.Expired, "collapses": push.Superseded, "cancels": push.Cancelled}
	all := func(f func(fate string, user string)) {
		for fate := range fates {
			for i := range each {
				f(fate, fmt.Sprintf("%s-%d", fate, i))
			}
		}
	}
	const ttl = 25 * time.Second
	var expires <-chan time.Time // when the last notification expires
	enqueue := func(fate, user, id string) {
		n := &push.Notification{
			ID: id, App: "shop", User: user, Title: "hello", Category: fate,
			Targets: []push.Target{{Platform: push.APNs, Token: fmt.Sprintf("%064x", len(user))}},
		}
		switch {
		case fate == "expires" && id == "a-"+user:
			n.TTL, expires = push.Duration(ttl), time.After(ttl)
		case fate == "collapses":
			n.CollapseKey = "score"
		}
		if _, err := producer.Enqueue(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	until := func(what string, f func() bool) {
		t.Helper()
		if !eventually.Within(5*time.Minute, f) {
			t.Fatalf("not within five minutes: %s", what)
		}
	}
	record := func(id string) *store.Record {
		r, _, err := records.Lookup(t.Context(), store.Ref{ID: id})
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		return r
	}

	first := c.Serve(t)
	enqueue("warms", "warm", "warm") // a connection carries many pushes at once after its first answer
	until("there is a connection", func() bool { return c.Delivered() == 1 })
	all(func(fate, user string) { enqueue(fate, user, "a-"+user) })
	until("all are under way", func() bool { return c.APNs.Count().InFlight == int64(each*len(fates)) })
	rig.Must(t, first.Cmd.Process.Signal(syscall.SIGSTOP))
	until("all are sent", func() bool { return c.Delivered() == 1+each*len(fates) })
	c.Kill(t, first)
	rig.Must(t, control.Pause(t.Context(), &pause.Pause{Category: "cancels"}))
	all(func(fate, user string) { enqueue(fate, user, "b-"+user) })
	<-expires // before the second worker takes over the first one's jobs
	second := c.Serve(t)
	all(func(fate, user string) {
		if fate == "cancels" { // wait until a worker has deferred the job, and given back its slot if allowed
			until("it is held", func() bool {
				status, err := inspector.Status(t.Context(), push.Ref{ID: "a-" + user})
				return err == nil && status.Job == "retry" && len(status.Paused) > 0
			})
			if _, err := control.Cancel(t.Context(), push.Ref{ID: "a-" + user}, 0); err != nil {
				t.Errorf("cancel: %v", err)
			}
		}
		until("the first one ends", func() bool { return record("a-" + user).State.Ended() })
	})
	if _, err := control.Resume(t.Context(), pause.Pause{Category: "cancels"}); err != nil {
		t.Fatal(err)
	}
	all(func(fate, user string) {
		until("the second one waits for its slot", func() bool { return record("b-"+user).Deferrals > 0 })
		if r := record("a-" + user); r.State != fates[fate] || len(r.Outcomes) != 1 || !r.Outcomes[0].Ambiguous {
			t.Errorf("a-%s ended as %s: %+v", user, r.State, r.Outcomes)
		}
	})
	if n := c.Delivered() - 1; n != each*len(fates) {
		t.Errorf("%d pushes to %d users in an hour that allows each of them one", n, each*len(fates))
	}
	c.Audited(t)
	c.Stop(t, second)
}

// A worker is killed again and again while notifications join digests. Each notification ends once.
// One push names and counts the members of a digest, and its retry is identical.
func TestDigestsSurviveKills(t *testing.T) {
	t.Parallel()
	const users, each, keys, kills = 20, 60, 4, 8
	const lasts, gap, sending = 4 * time.Second, 400 * time.Millisecond, 100 * time.Millisecond
	c := rig.NewCrashSite(t, throttle.Policy{MinGap: gap}, sending)
	workers := []*rig.Program{c.Serve(t), c.Serve(t), c.Serve(t)}
	producer := push.NewProducer(c.Client, "", 0)
	id := func(user, i int) string { return fmt.Sprintf("user-%d-%d", user, i) }
	var producers sync.WaitGroup
	for user := range users {
		producers.Go(func() {
			<-time.After(time.Duration(user) * gap / users) // so that at any time pushes are in flight
			tick := time.NewTicker(lasts / each)
			defer tick.Stop()
			for i := range each {
				n := &push.Notification{
					ID: id(user, i), App: "shop", User: fmt.Sprint("user-", user), Title: id(user, i), TTL: push.Duration(time.Duration(1+i%2) * time.Hour),
					Targets: []push.Target{{Platform: push.FCM, Token: fmt.Sprintf("device-%d-%d", user, i)}},
					Digest:  judge.TellingDigest(fmt.Sprint("key-", i%keys)),
				}
				if _, err := producer.Enqueue(t.Context(), n); err != nil {
					t.Errorf("%s is not accepted: %v", n.ID, err)
				}
				<-tick.C
			}
		})
	}
	for kill := range kills {
		<-time.After(rand.N(lasts * 3 / 2 / kills))
		victim := &workers[kill%len(workers)]
		rig.Must(t, (*victim).Cmd.Process.Signal(syscall.SIGKILL))
		<-(*victim).Done
		*victim = rig.Start(t, c.Setup, "serve")
	}
	producers.Wait()
	c.Drained(t, users*each)
	// jobs of a killed worker come back though their notifications may have ended
	if !eventually.Within(eventually.Patience, func() bool { return len(rig.InHand(t, c.Client)) == 0 }) {
		t.Errorf("%q are in hand still", rig.InHand(t, c.Client))
	}
	c.Stop(t, workers...)
	c.Audited(t)

	records, sent := store.NewRecords(c.Client, "", 0), c.Sent()
	told := map[string][]string{} // members by the ID of the digest's push
	ends := map[push.State]int{}
	for user := range users {
		for i := range each {
			id := id(user, i)
			record, _, err := records.Lookup(t.Context(), store.Ref{ID: id})
			if err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			ends[record.State]++
			switch record.State {
			case push.Delivered:
				if !sent[id] {
					t.Errorf("%s ended as delivered, and was not sent", id)
				}
			case push.Digested:
				if sent[id] || !sent[record.Into] {
					t.Errorf("%s ended as digested into %s: of the two %t, %t were sent", id, record.Into, sent[id], sent[record.Into])
				}
				told[record.Into] = append(told[record.Into], id)
			default:
				t.Errorf("%s ended as %s: %+v", id, record.State, record)
			}
		}
	}
	counts, err := records.Counts(t.Context())
	rig.Must(t, err)
	if counts.Ended[push.Delivered] != int64(ends[push.Delivered]) || counts.Ended[push.Digested] != int64(ends[push.Digested]) || ends[push.Digested] < users*each/2 {
		t.Errorf("%v of %+v", ends, counts)
	}
	c.JudgeTold(t, told, sent)
	t.Logf("%v, %d pushes, %d of them again", ends, c.Delivered(), c.Delivered()-len(sent))
}

// The jobs of a killed worker are back on the queue within seconds, so that each can be
// cancelled.
func TestJobsOfKilledWorkerReturnInSeconds(t *testing.T) {
	t.Parallel()
	const users = 20
	const soonBack = 20 * time.Second // 10 s on a quiet machine
	policy := throttle.Policy{MinGap: 2 * time.Second}
	c := rig.NewCrashSite(t, policy, 3*time.Second) // how long a push is in flight
	longest := judge.Stalls()
	producer, records := push.NewProducer(c.Client, "", 0), store.NewRecords(c.Client, "", 0)
	limiter, err := throttle.New(c.Client, throttle.Options{})
	rig.Must(t, err)
	t.Cleanup(func() { limiter.Close() })
	control := control.New(c.Client, records, limiter, limits.New(policy, nil))
	killed := c.Serve(t)
	var held []string
	for try := 0; len(held) < users/2; try++ {
		if try == 20 {
			t.Fatal("a worker never has that many in hand")
		}
		for i := range users {
			c.Enqueue(t, producer, (try*users+i)*2000, fmt.Sprintf("user-%d-%d", try, i)) // its fate is sent
			c.Enqueue(t, producer, (try*users+i)*2000+1000, fmt.Sprintf("user-%d-%d", try, i))
		}
		held = rig.InHand(t, c.Client)
	}
	rig.Must(t, killed.Cmd.Process.Signal(syscall.SIGKILL))
	<-killed.Done
	gone := time.Now()
	held = rig.InHand(t, c.Client)
	rig.Must(t, control.Pause(t.Context(), &pause.Pause{App: "shop"})) // so that no other worker sends the notifications
	other := c.Serve(t)
	for _, id := range held {
		if !eventually.Within(time.Minute, func() bool {
			_, err := control.Cancel(t.Context(), push.Ref{ID: id}, 0)
			return err == nil
		}) {
			t.Errorf("%s, which the killed worker had, cannot be cancelled", id)
		}
	}
	took := time.Since(gone)
	if stall := longest(); took > soonBack+stall {
		t.Errorf("it takes %s until all of %d can be cancelled, with a stall of %s", took, len(held), stall)
	}
	t.Logf("%d were in hand, all can be cancelled after %s", len(held), took)
	c.Stop(t, other)
}

// A worker is stopped until a second worker takes over its jobs, and then continued. It sends none of
// these jobs, and takes none from the second worker.
func TestStoppedWorkerSendsNothingTwice(t *testing.T) {
	t.Parallel()
	const users, each = 40, 30
	c := rig.NewCrashSite(t, throttle.Policy{MinGap: time.Second}, 2*time.Millisecond)
	producer := push.NewProducer(c.Client, "", 0)
	stopped, other := c.Serve(t), c.Serve(t)
	for i := range users * each {
		c.Enqueue(t, producer, 1000*i, fmt.Sprintf("user-%d", i%users)) // its fate is sent
	}
	if !eventually.Within(time.Minute, func() bool { return c.Delivered() > 3*users }) {
		t.Fatalf("%d are sent", c.Delivered())
	}
	signal := func(s syscall.Signal) time.Time {
		rig.Must(t, stopped.Cmd.Process.Signal(s))
		return time.Now()
	}
	at := signal(syscall.SIGSTOP)
	held := rig.InHand(t, c.Client)
	sent := c.Delivered()
	passed := time.NewTimer(20 * time.Second)
	defer passed.Stop()
	<-passed.C
	again := signal(syscall.SIGCONT)
	if c.Delivered() == sent {
		t.Error("the other worker sends nothing meanwhile")
	}
	c.Drained(t, users*each)
	first, twice, late := map[string]time.Time{}, 0, 0
	for _, e := range slices.Concat(c.APNs.Ledger().Entries(), c.FCM.Ledger().Entries()) {
		switch before, known := first[e.Notification]; {
		case !known:
			first[e.Notification] = e.At
		case before.Before(at.Add(5 * time.Second)): // the push was in flight: the second worker cannot have had the job
			twice++
		default:
			late++
			t.Logf("%s is sent at %s and at %s; the worker was stopped from %s to %s", e.Notification, before, e.At, at, again)
		}
	}
	// One push may be between the worker's last check of its heartbeat and the connection.
	if late > 1 || len(first) != users*each {
		t.Errorf("%d of %d are sent; %d that were not in flight at the stop are sent twice", len(first), users*each, late)
	}
	t.Logf("%d were claimed; sent twice are %d that were in flight, and %d that were not", len(held), twice, late)
	c.Stop(t, stopped, other)
}

// A worker is killed while paused jobs return to the queue. A second worker sends the rest: nothing is
// lost, and only pushes in flight are sent twice.
func TestKillWhilePausedJobsReturn(t *testing.T) {
	t.Parallel()
	const n = 6000
	c := rig.NewCrashSite(t, throttle.Policy{}, 20*time.Millisecond)
	c.Env = append(c.Env, "PUSHPACE_WORKER__CONCURRENCY=8") // the return takes a quarter of a minute
	c.APNs.RespondAlways(standin.Answer{Status: http.StatusServiceUnavailable})
	killed := c.Serve(t)
	producer := push.NewProducer(c.Client, "", 0)
	priorities := []push.Priority{push.Critical, push.Default, push.Bulk}
	for i := range n {
		if _, err := producer.Enqueue(t.Context(), &push.Notification{
			ID: fmt.Sprintf("n-%d", i), App: "shop", User: "ada", Title: "hello", Priority: priorities[i%len(priorities)],
			Targets: []push.Target{{Platform: push.APNs, Token: fmt.Sprintf("%064x", i)}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	asleep := func() (all int64) {
		for _, p := range priorities {
			all += c.Client.ZCard(t.Context(), shard.NewShards(c.Client, "", 1)[0].QueueKey(p.Queue(), "retry")).Val()
		}
		return all
	}
	killed.Until(t, "all held", func() bool { return asleep() == n })
	c.APNs.Recover()
	killed.Until(t, "some sent", func() bool { return c.Delivered() > n/20 })
	other := c.Serve(t)
	underWay := c.Kill(t, killed)
	if left := asleep(); left == 0 {
		t.Error("all had returned when the worker was killed")
	}
	c.Drained(t, n)
	c.Stop(t, other)
	counts, err := store.NewRecords(c.Client, "", 0).Counts(t.Context())
	rig.Must(t, err)
	sent, twice := len(c.Sent()), int64(c.Delivered()-len(c.Sent()))
	if counts.Ended[push.Delivered] != n || sent != n || twice > underWay+30 { // 30 pushes may be on their way to the stand-in
		t.Errorf("%d are sent, %d of them twice, %d were under way at the kill; counts %+v", sent, twice, underWay, counts)
	}
}
