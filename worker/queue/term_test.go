package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// A testWorker is a worker that has sent its first heartbeat. The test makes its moves on the
// default queue.
type testWorker struct {
	*Server
	*liveness
	queue string
	t     *testing.T
	got   map[string]Job // by ID: the pulled jobs
}

func newTestWorker(t *testing.T, client redis.UniversalClient) *testWorker {
	t.Helper()
	c := configOf(t, client)
	c.Budget = NewBudget(100_000)
	s := NewServer(c)
	n := &testWorker{Server: s, liveness: s.liveness, queue: push.Default.Queue(), t: t, got: map[string]Job{}}
	n.liveness.timeout = redistest.Patience
	n.signs()
	return n
}

// signs sends the heartbeats, and returns the dead terms.
func (n *testWorker) signs() []string {
	n.t.Helper()
	dead, _, err := n.heartbeat(n.t.Context())
	must(n.t, err)
	return dead
}

// established gives the worker an unbroken hour of heartbeats.
func (n *testWorker) established() *testWorker {
	n.last, n.since = time.Now(), time.Now().Add(-time.Hour)
	return n
}

// id returns the current term's ID.
func (n *testWorker) id() string { return n.liveness.term.Load().id }

// backdate backdates the term's last heartbeat.
func (n *testWorker) backdate(ago time.Duration) {
	n.t.Helper()
	now, err := n.Client.Time(n.t.Context()).Result()
	if err == nil {
		err = n.Client.ZAdd(n.t.Context(), n.Records.Key("signs"), redis.Z{Score: float64(now.Add(-ago).Unix()), Member: n.id()}).Err()
	}
	must(n.t, err)
}

func (n *testWorker) key(name string) string { return n.Records.QueueKey(n.queue, name) }

// enqueue enqueues notifications one after another.
func (n *testWorker) enqueue(ids ...string) {
	n.t.Helper()
	producer := push.NewProducer(n.Client, "", 0).WithShards(1)
	for _, id := range ids {
		_, err := producer.Enqueue(n.t.Context(), note(id))
		must(n.t, err)
	}
}

// pull claims all jobs of the queue, and returns their IDs.
func (n *testWorker) pull() (ids []string) {
	n.t.Helper()
	for {
		jobs, err := n.take(n.queue)
		must(n.t, err)
		for _, job := range jobs {
			ids = append(ids, job.ID)
			n.got[job.ID] = job
		}
		if len(jobs) == 0 {
			return ids
		}
	}
}

// putsOff returns a pulled job to the queue, for an hour later.
func (n *testWorker) putsOff(id string) error {
	job := n.got[id]
	return n.Records.PutOff(n.t.Context(), &job.Job, &store.PutOff{Return: store.Return{Why: store.Deferred, After: time.Hour}})
}

// givesBack returns a pulled job to the head of the queue if this worker still has it, and
// returns the number of moved jobs.
func (n *testWorker) givesBack(id string) int {
	n.t.Helper()
	back, err := n.Records.GiveBack(n.t.Context(), n.queue, []store.Job{n.got[id].Job})
	must(n.t, err)
	return back
}

// A dead worker's jobs return ahead of the queue, in the order of acceptance, and count a
// failure. A live worker keeps its jobs.
func TestJobsOfDeadWorkerReturn(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	dead, alive := newTestWorker(t, client), newTestWorker(t, client)
	var ids []string
	for i := range 300 {
		ids = append(ids, fmt.Sprintf("job-%d", i))
	}
	dead.enqueue(ids...)
	dead.pull()
	alive.enqueue("alive's")
	alive.pull()
	alive.enqueue("last")
	must(t, client.HSet(t.Context(), dead.key("t:"+ids[0]), "msg", "no message").Err()) // a pull sets it aside
	dead.backdate(2*validFor - 2*time.Second)
	if found := alive.established().signs(); len(found) > 0 {
		t.Errorf("%v is dead too soon", found)
	}
	dead.backdate(2*validFor + time.Second)
	found := alive.signs()
	if !slices.Equal(found, []string{dead.id()}) {
		t.Fatalf("dead are %v, want %s", found, dead.id())
	}
	alive.reap(t.Context(), found)
	newTestWorker(t, client).reap(t.Context(), found) // by another worker at the same time
	if found := alive.signs(); len(found) > 0 {
		t.Errorf("%v is dead once more", found)
	}
	if waits, err := client.LRange(t.Context(), alive.key("pending"), 0, -1).Result(); err != nil || len(waits) != len(ids)+1 {
		t.Errorf("%d jobs are on the queue, %v", len(waits), err)
	}
	got := alive.pull()
	if want := append(ids[1:], "last"); !slices.Equal(got, want) {
		t.Errorf("%d jobs come back as %v, want %d as %v", len(got), got, len(want), want)
	}
	for id, want := range map[string]int{ids[1]: 1, "last": 0, "alive's": 0} {
		if job := alive.got[id]; job.Failures != want {
			t.Errorf("%s has failed %d times, want %d", id, job.Failures, want)
		}
	}
}

// A worker judges no other worker if it had no reply or its own heartbeat is old: Redis may have been
// unreachable, or its clock was set.
func TestJudgingNeedsUnbrokenHeartbeats(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	dead, judge := newTestWorker(t, client), newTestWorker(t, client)
	dead.backdate(time.Hour)
	if found := judge.signs(); len(found) > 0 {
		t.Errorf("a new worker finds %v dead", found)
	}
	judge.established().last = time.Now().Add(-validFor - time.Second)
	if found := judge.signs(); len(found) > 0 {
		t.Errorf("a worker without a reply finds %v dead", found)
	}
	judge.established().backdate(2*validFor + time.Second)
	if found := judge.signs(); len(found) > 0 {
		t.Errorf("a worker with an old heartbeat finds %v dead", found)
	}
	if found := judge.signs(); len(found) != 1 {
		t.Errorf("%v is dead in the end", found)
	}
}

// One worker leads at a time: the live worker with the lowest term ID, compared as text.
func TestLiveWorkerWithLowestTermIDLeads(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		if NewServer(configOf(t, client)).Leads() {
			t.Error("a worker without a heartbeat leads")
		}
		var all []*testWorker
		for range 40 {
			all = append(all, newTestWorker(t, client))
		}
		slices.SortFunc(all, func(a, b *testWorker) int { return strings.Compare(a.id(), b.id()) })
		leads := func(want int) {
			t.Helper()
			for i, n := range all {
				if n != nil {
					n.since = time.Now() // a slow machine must not make it judge
					n.signs()
				}
				if n != nil && n.Leads() != (i == want) {
					t.Errorf("%d of %d: leads is %t", i, len(all), n.Leads())
				}
			}
		}
		leads(0)
		dies := all[0]
		all[0] = nil
		dies.backdate(2*validFor + time.Second)
		leads(1)
		ended, end := context.WithCancel(t.Context())
		end()
		all[1].keepAlive(ended, func() {}) // signs off
		all[1] = nil
		leads(2)
		all[0] = dies // it was only suspended
		leads(0)
		dies.liveness.term.Load().update(time.Time{}, false)
		if dies.Leads() {
			t.Error("a worker leads that others may take for dead")
		}
	})
}

// Each of a worker's terms may lead.
func TestWorkerLeadsByAnyOfItsTerms(t *testing.T) {
	t.Parallel()
	n := newTestWorker(t, redistest.One(t))
	n.hold()
	n.every = 0
	n.suspect()
	for range 2 {
		if n.signs(); !n.Leads() {
			t.Error("the only worker does not lead")
		}
	}
	if len(n.before) != 1 {
		t.Errorf("%d terms end", len(n.before))
	}
}

// A full Redis accepts heartbeats, so that claimed jobs can still be sent and settled.
func TestFullRedisAcceptsHeartbeat(t *testing.T) {
	t.Parallel()
	n := newTestWorker(t, redistest.Connect(t, redistest.Start(t).Options()))
	must(t, n.Client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	if n.signs(); !n.liveness.term.Load().Valid() {
		t.Error("the heartbeat failed")
	}
}

// A server that could not return all jobs does not sign off, so that other workers find the jobs.
func TestServerWithUnreturnedJobsDoesNotSignOff(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	for cause, want := range map[error]int64{nil: 0, errLeft: 1} {
		n := newTestWorker(t, client)
		ctx, end := context.WithCancelCause(t.Context())
		end(cause)
		n.keepAlive(ctx, func() {})
		if got := client.ZCard(t.Context(), n.Records.Key("signs")).Val(); got != want {
			t.Errorf("%d are left for %v, want %d", got, cause, want)
		}
		client.Del(t.Context(), n.Records.Key("signs"))
	}
}

// A worker that others took for dead begins a new term and drops the jobs of the old one. It does not
// touch the jobs, which others have now.
func TestWorkerTakenForDeadBeginsNewTerm(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	stopped, other := newTestWorker(t, client), newTestWorker(t, client)
	stopped.enqueue("job")
	stopped.pull()
	before, term := stopped.id(), stopped.liveness.term.Load()
	if term.Lost(t.Context()) {
		t.Error("the term is lost at once")
	}
	stopped.backdate(time.Hour)
	other.reap(t.Context(), other.established().signs())
	if got := other.pull(); !slices.Equal(got, []string{"job"}) {
		t.Fatalf("the other pulls %v", got)
	}
	if err, n := stopped.putsOff("job"), stopped.givesBack("job"); !errors.Is(err, store.ErrNotClaimed) || n > 0 {
		t.Errorf("before it knows: %v, %d given back", err, n)
	}
	stopped.signs()
	if !term.Lost(t.Context()) || stopped.id() == before || stopped.liveness.term.Load().Lost(t.Context()) {
		t.Error("it has not begun another term")
	}
	if state := client.HGet(t.Context(), other.key("t:job"), "state").Val(); state != "active" {
		t.Errorf("the other's job is %s", state)
	}
	if err := other.putsOff("job"); err != nil {
		t.Errorf("the other returns its job: %v", err)
	}
	if left := client.LLen(t.Context(), other.key("active")).Val(); left != 0 {
		t.Errorf("%d jobs are claimed", left)
	}
	// the dead term is found again, as a running pull may have claimed jobs in it
	if found := other.established().signs(); !slices.Equal(found, []string{before}) {
		t.Errorf("dead are %v, want %s once more", found, before)
	}
}

// While the last heartbeat is not valid, Lost waits for the next heartbeat.
func TestLostWaitsForNextHeartbeat(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		then func(term *Term, end context.CancelFunc)
		lost bool
	}{
		"the heartbeat succeeds": {func(term *Term, _ context.CancelFunc) { term.update(time.Now().Add(time.Second), false) }, false},
		"the term is over":       {func(term *Term, _ context.CancelFunc) { term.update(time.Time{}, true) }, true},
		"ctx ends":               {func(_ *Term, end context.CancelFunc) { end() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				defer end()
				term := newTerm()
				term.update(time.Now().Add(time.Second), false)
				if term.Lost(ctx) {
					t.Error("the term is lost while its heartbeat is valid")
				}
				<-time.After(time.Second)
				answer := make(chan bool, 1)
				go func() { answer <- term.Lost(ctx) }()
				synctest.Wait()
				select {
				case lost := <-answer:
					t.Errorf("Lost returns %t too early", lost)
				default:
				}
				c.then(term, end)
				if lost := <-answer; lost != c.lost {
					t.Errorf("lost: %t, want %t", lost, c.lost)
				}
			})
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
