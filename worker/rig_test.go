package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/apns/apnstest"
	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/route"
	"github.com/pushpace/pushpace/worker/webhook"
)

func TestMain(m *testing.M) {
	redistest.Parallel()
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(redistest.Dialing()); err != nil {
			println(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}

// A rig is a whole worker with a Redis, the real limiter, and the real senders against stand-ins of
// the providers.
type rig struct {
	t        *testing.T
	client   redis.UniversalClient
	apns     *apnstest.Server
	fcm      *fcmtest.Server
	producer *push.Producer
	records  *store.Records
	limiter  *throttle.Redis
	options  worker.Options
	seen     *seen
}

// overRedis runs the test on the embedded Redis and on a real one.
func overRedis(t *testing.T, test func(t *testing.T, client redis.UniversalClient)) {
	t.Helper()
	t.Parallel()
	redistest.Over(t, test)
}

// oneRedis returns a real Redis if there is one, and else the embedded one. It makes the test parallel.
func oneRedis(t *testing.T) redis.UniversalClient {
	t.Helper()
	t.Parallel()
	return redistest.One(t)
}

// home returns the shard of u1, the user in most tests.
func home(client redis.UniversalClient) *store.Shard {
	at, err := store.NewRecords(client, "", 0).Of(context.Background(), "shop", "u1")
	if err != nil {
		panic(err)
	}
	return at
}

// queueKey returns a key of asynq's for a queue of the home shard.
func queueKey(client redis.UniversalClient, queue, name string) string {
	return home(client).QueueKey(queue, name)
}

func shardKey(client redis.UniversalClient, name string) string {
	return home(client).Key(name)
}

func newRig(t *testing.T, client redis.UniversalClient, limits *limits.Policies) *rig {
	t.Helper()
	client, stop := pipeline.Share(client, pipeline.Options{Timeout: redistest.Patience})
	t.Cleanup(stop)
	limiter, err := throttle.New(client, throttle.Options{Timeout: redistest.Patience})
	must(t, err)
	t.Cleanup(func() { limiter.Close() })
	apnsServer, err := apnstest.NewServer(apnstest.Options{})
	must(t, err)
	t.Cleanup(func() { apnsServer.Close() })
	fcmServer, err := fcmtest.NewServer(fcmtest.Options{})
	must(t, err)
	t.Cleanup(func() { fcmServer.Close() })
	apnsConfig, err := apnsServer.WriteCredentials(t.TempDir())
	must(t, err)
	apnsConfig.Timeout = time.Minute // so that a late push is not repeated
	apnsSender, err := apns.New(apnsConfig)
	must(t, err)
	t.Cleanup(func() { apnsSender.Close() })
	fcmSender := fcmServer.NewSender() // without the SDK, which takes seconds to link
	t.Cleanup(func() { fcmSender.Close() })
	r := &rig{
		t: t, client: client, apns: apnsServer, fcm: fcmServer, limiter: limiter, seen: &seen{ended: map[push.State]int{}},
		producer: push.NewProducer(client, "", 0), records: store.NewRecords(client, "", 0),
	}
	r.options = worker.Options{
		Queue: client, Limiter: limiter, Limits: limits, Observer: r.seen,
		Senders: map[string]map[push.Platform]providers.Sender{"shop": {push.APNs: apnsSender, push.FCM: fcmSender}, "apple": {push.APNs: apnsSender}},
		Log:     slog.New(slog.DiscardHandler), ShutdownTimeout: 5 * time.Second,
	}
	return r
}

// divide divides the rig's Redis into n shards. Call it before start.
func (r *rig) divide(n int) {
	r.options.Shards, r.producer, r.records = n, r.producer.WithShards(n), r.records.WithShards(n)
}

// start runs a worker until the test ends or stop is called.
func (r *rig) start() (stop func()) {
	r.t.Helper()
	w, err := worker.New(r.options)
	must(r.t, err)
	must(r.t, w.Start(r.t.Context()))
	stop = sync.OnceFunc(func() { must(r.t, w.Stop(context.Background())) })
	r.t.Cleanup(func() {
		ended, end := context.WithCancel(context.Background())
		end()
		_ = w.Stop(ended) // the test waits for nothing that is still in flight
		stop()
	})
	return stop
}

func (r *rig) enqueue(n *push.Notification) push.Receipt {
	r.t.Helper()
	receipt, err := r.producer.Enqueue(r.t.Context(), n)
	must(r.t, err)
	return receipt
}

// enqueueTogether enqueues all in one call.
func (r *rig) enqueueTogether(all []*push.Notification) {
	r.t.Helper()
	for _, result := range r.producer.EnqueueAll(r.t.Context(), all) {
		must(r.t, result.Err)
	}
}

// enqueueAll enqueues one notification for each of n users in one call, changed by with unless that is nil.
func (r *rig) enqueueAll(name string, n int, with func(i int, one *push.Notification), targets ...push.Target) {
	r.t.Helper()
	all := make([]*push.Notification, n)
	for i := range all {
		all[i] = to(fmt.Sprint(name, "-", i), targets...)
		if all[i].User = all[i].ID; with != nil {
			with(i, all[i])
		}
	}
	r.enqueueTogether(all)
}

// settled waits until n notifications have ended, and returns the counts. It fails if no further
// notification ends within eventually.Patience.
func (r *rig) settled(n int) (counts store.Counts) {
	r.t.Helper()
	for ended := int64(-1); ended < int64(n); {
		before := ended
		if !eventually.Within(eventually.Patience, func() bool {
			var err error
			counts, err = r.records.Counts(context.Background())
			must(r.t, err)
			ended = counts.Accepted - counts.Waiting() + counts.Malformed
			return ended > before
		}) {
			r.t.Fatalf("%d of %d have ended, and none lately; %+v wait", ended, n, r.queued(inspect.Selection{}))
		}
	}
	return counts
}

// timeline returns the user's timeline of the general limits.
func (r *rig) timeline(user string) throttle.Timeline {
	r.t.Helper()
	timeline, err := r.limiter.Timeline(r.t.Context(), throttle.Request{App: "shop", User: user, Scopes: r.options.Limits.Scopes("shop", user, "")})
	must(r.t, err)
	return timeline
}

// admitted returns the time of the notification's admission; zero for none.
func (r *rig) admitted(user, id string) time.Time {
	r.t.Helper()
	for _, a := range r.timeline(user).Admissions[throttle.General] {
		if a.ID == id {
			return a.At
		}
	}
	return time.Time{}
}

func (r *rig) record(id string) *store.Record {
	r.t.Helper()
	record, _, err := r.records.Lookup(r.t.Context(), store.Ref{ID: id})
	must(r.t, err)
	return record
}

func (r *rig) letter(id string) *store.Letter {
	r.t.Helper()
	letter, _, err := r.records.Letter(r.t.Context(), store.Ref{ID: id}, push.Contents, nil)
	must(r.t, err)
	return letter
}

// pushed returns the accepted pushes of a notification; "" means all notifications.
func (r *rig) pushed(id string) []standin.Entry {
	entries := append(r.apns.Ledger().Entries(), r.fcm.Ledger().Entries()...)
	entries = slices.DeleteFunc(entries, func(e standin.Entry) bool { return id != "" && e.Notification != id })
	slices.SortFunc(entries, func(a, b standin.Entry) int { return a.At.Compare(b.At) })
	return entries
}

// archived returns the number of jobs that asynq has archived, and that are thus lost.
func (r *rig) archived() int {
	r.t.Helper()
	inspector := asynq.NewInspectorFromRedisClient(r.client)
	n := 0
	for _, queue := range shard.Queues {
		info, err := inspector.GetQueueInfo(home(r.client).Queue(queue))
		if err == nil {
			n += info.Archived
		}
	}
	return n
}

// seen is an Observer that records.
type seen struct {
	worker.NopObserver
	mu       sync.Mutex
	deferred []throttle.Decision
	ages     []time.Duration
	ended    map[push.State]int
	posted   map[webhook.Kind]map[bool]int
	closed   []providers.Reason
	unknown  int
	noZone   int
}

func (s *seen) UnknownTimeZone() { s.mu.Lock(); s.noZone++; s.mu.Unlock() }

func (s *seen) UnknownCategory() { s.mu.Lock(); s.unknown++; s.mu.Unlock() }

func (s *seen) Handled(age time.Duration) {
	s.mu.Lock()
	s.ages = append(s.ages, age)
	s.mu.Unlock()
}
func (s *seen) Deferred(_, _ string, d throttle.Decision) {
	s.mu.Lock()
	s.deferred = append(s.deferred, d)
	s.mu.Unlock()
}
func (s *seen) Posted(_ string, kind webhook.Kind, taken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.posted == nil {
		s.posted = map[webhook.Kind]map[bool]int{webhook.DeadTokens: {}, webhook.Outcomes: {}}
	}
	s.posted[kind][taken]++
}
func (s *seen) Ended(state push.State) { s.mu.Lock(); s.ended[state]++; s.mu.Unlock() }
func (s *seen) endings(state push.State) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended[state]
}
func (s *seen) Closed(_ string, _ push.Platform, reason providers.Reason) {
	s.mu.Lock()
	s.closed = append(s.closed, reason)
	s.mu.Unlock()
}
func (s *seen) closings() []providers.Reason {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.closed)
}

func (s *seen) deferrals() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.deferred) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wait polls until the condition holds, for at most four minutes.
func wait(t testing.TB, condition func() bool) {
	t.Helper()
	if !eventually.Within(4*time.Minute, condition) {
		t.Fatal("the condition did not hold within four minutes")
	}
}

// deferred waits until a limit has deferred the notification and its job is on the queue.
func (r *rig) deferred(id string) *store.Record {
	r.t.Helper()
	wait(r.t, func() bool {
		if r.record(id).Deferrals == 0 {
			return false
		}
		status, err := r.inspector().Status(r.t.Context(), push.Ref{ID: id})
		must(r.t, err)
		return status.Job == "retry"
	})
	return r.record(id)
}

func (r *rig) inspector() *inspect.Inspector {
	return inspect.New(r.client, r.records, r.limiter, r.options.Limits)
}

func (r *rig) control() *control.Control {
	return r.rests(control.New(r.client, r.records, r.limiter, r.options.Limits))
}

// cancel cancels a notification that carries no others.
func (r *rig) cancel(ref push.Ref) error {
	_, err := r.control().Cancel(r.t.Context(), ref, 0)
	return err
}

// rests makes the test's end wait for the control's delayed work.
func (r *rig) rests(c *control.Control) *control.Control {
	r.t.Cleanup(func() { c.Rest(context.Background()) })
	return c
}

// accounts waits until the audit is exact: a job may leave the queue after its notification has ended.
func (r *rig) accounts() {
	r.t.Helper()
	wait(r.t, func() bool {
		audit, err := r.inspector().Audit(r.t.Context())
		must(r.t, err)
		return audit.Difference == 0 && audit.Queued == audit.Waiting
	})
}

func statusOf(t *testing.T, w *worker.Worker, app string, platform push.Platform) route.Status {
	t.Helper()
	for _, s := range w.Routes() {
		if s.App == app && s.Platform == platform {
			return s
		}
	}
	t.Fatalf("no route %s/%s", app, platform)
	return route.Status{}
}

// run starts a worker that stops at the end of the test, and returns it.
func (r *rig) run() *worker.Worker {
	r.t.Helper()
	w, err := worker.New(r.options)
	must(r.t, err)
	must(r.t, w.Start(r.t.Context()))
	r.t.Cleanup(func() { must(r.t, w.Stop(context.Background())) })
	return w
}

// status waits until the notification waits for the cause, and returns its status.
func (r *rig) status(id string, cause inspect.Cause) *inspect.Status {
	r.t.Helper()
	var status *inspect.Status
	wait(r.t, func() bool {
		var err error
		status, err = r.inspector().Status(r.t.Context(), push.Ref{ID: id})
		must(r.t, err)
		if status.State.Ended() {
			r.t.Fatalf("%s has ended: %+v", id, status.Record)
		}
		return status.Waits.For == cause
	})
	return status
}
