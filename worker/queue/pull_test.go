package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/ledger/ledgertest"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// What is done is looked for from the end of the active list that fewer of what is in
// hand lie at.
func TestWhereWhatIsDoneIsLookedFor(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		var stalled []Bound
		c := newClient(Config{
			Client: client, Records: ledgertest.First(t, ledger.NewRecords(client, "", 0)), Role: leads, Hands: NewHands(8), Bounds: func(string, time.Time) []Bound { return stalled }, Parked: func([]string) {},
			Log: slog.New(slog.DiscardHandler), RedisLog: slog.New(slog.DiscardHandler),
		})
		queue := push.Bulk.Queue()
		for i := range 3 * prefetched {
			if _, err := asynq.NewClientFromRedisClient(client).Enqueue(asynq.NewTask(asynqwire.TaskType, nil), asynq.MaxRetry(asynqwire.MaxRetry), asynq.TaskID(fmt.Sprint(i)), asynq.Queue(c.shard.Queue(queue))); err != nil {
				t.Fatal(err)
			}
		}
		take := func() {
			t.Helper()
			keys := []string{c.shard.QueueKey(queue, "pending"), c.shard.QueueKey(queue, "paused"), c.shard.QueueKey(queue, "active"), c.shard.QueueKey(queue, "lease")}
			jobs, _, err := c.take(t.Context(), queue, keys, []any{time.Now().Add(time.Minute).Unix(), c.shard.QueueKey(queue, "t:")})
			if err != nil || len(jobs) != prefetched {
				t.Errorf("it takes %d jobs, %v, want %d", len(jobs), err, prefetched)
			}
		}
		take()
		stalled = []Bound{
			{Route: "this", InHand: 8},
			{Route: "that", InHand: 12},
		}
		take()
		for inHand, want := range map[int64]bool{39: true, 40: false} {
			if c.config.Hands.inHand = int(inHand); c.mostStuck(queue) != want {
				t.Errorf("of %d in hand 20 are stuck, and most: %t", inHand, !want)
			}
		}
		if c.mostStuck(push.Critical.Queue()) {
			t.Error("it is so of another queue")
		}
		stalled = nil
		take()
		if c.mostStuck(queue) {
			t.Error("nothing is stalled any more")
		}
	})
}

// A panic over a job that is taken in hand costs that job its visit alone.
func TestAPanicOverAJob(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	c := &client{handler: panics{}, idle: newIdle(shard.Shard{}, NewHands(6), leads), config: Config{Hands: NewHands(6), Log: slog.New(slog.NewTextHandler(&log, nil))}}
	c.works.note("", handed{func(context.Context) error {
		var none []string
		return errors.New(none[3])
	}, func() {}})
	for name, work := range map[string]Work{
		"a panic: *queue.panics": c.workOf(Job{ID: "worse"}),
		"a panic: runtime error: index out of range [3] with length 0": func(ctx context.Context) error {
			return processor{c}.ProcessTask(ctx, nil)
		},
	} {
		var r *Return
		if err := work(t.Context()); !errors.As(err, &r) || *r != (Return{Why: Panicked, Detail: name, After: Again, Failed: true}) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text := log.String(); strings.Count(text, "a panic over a job") != 1 || !strings.Contains(text, "pull_test.go") {
		t.Error(text)
	}
}

type panics struct{}

func (panics) Take(Job) Work { panic(new(panics)) }

// A job follows the one before it of the same user and category where another worker has that
// in hand, whatever was pulled in between.
func TestWhatAJobFollows(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		enqueue := func(user string, ids ...string) {
			t.Helper()
			for _, id := range ids {
				if _, err := push.NewProducer(client, "", 0).Enqueue(t.Context(), &push.Notification{
					ID: id, App: "demo", User: user, Title: "hi", Targets: []push.Target{{Platform: push.APNs, Token: "00"}},
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
		one, other := newNewcomer(t, client), newNewcomer(t, client)
		take := func(n *newcomer, want ...string) {
			t.Helper()
			jobs, _, err := n.once()
			if err != nil {
				t.Fatal(err)
			}
			var follow []string
			for _, job := range jobs {
				follow = append(follow, job.follows)
			}
			if !slices.Equal(follow, want) {
				t.Errorf("the jobs taken follow %q, want %q", follow, want)
			}
		}
		enqueue("ada", "a1")
		enqueue("bob", "b1")
		take(one, "", "")
		enqueue("ada", "a2", "a3")
		enqueue("eve", "e1")
		enqueue("bob", "b2")
		take(other, "a1", "", "", "b1")
		enqueue("ada", "a4")
		take(other, "") // its own are in order as it is
		enqueue("ada", "a5")
		take(one, "a4")
		if err := client.Del(t.Context(), one.client.shard.QueueKey(one.queue, "t:a5")).Err(); err != nil { // it has ended
			t.Fatal(err)
		}
		enqueue("ada", "a6")
		take(other, "")
		newer, older := one.client.shard.QueueKey(one.queue, "latest"), one.client.shard.QueueKey(one.queue, "latest:older")
		for i := range remembered {
			client.HSet(t.Context(), newer, i, "")
		}
		enqueue("ada", "a7")
		take(one, "a6") // which is in the older hash now
		if newer, older := client.HLen(t.Context(), newer).Val(), client.HLen(t.Context(), older).Val(); newer != 1 || older < remembered {
			t.Errorf("%d and %d are remembered", newer, older)
		}
	})
}

// A job that follows another one begins when that is in the other worker's hands no more, and
// after followFor at most.
func TestAJobFollowsAnother(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		c := newNewcomer(t, client).client
		queue, looks := push.Default.Queue(), &looking{}
		redistest.Hook(client, looks)
		task := c.shard.QueueKey(queue, "t:first")
		begins := func(of pulled) chan time.Time {
			of.Queue, of.Term = queue, c.life.term.Load()
			begun := make(chan time.Time, 1)
			work := c.worked(&of, func(context.Context) error {
				begun <- time.Now()
				return nil
			})
			go func() { _ = work(context.Background()) }()
			return begun
		}
		hold := func(worker string) {
			t.Helper()
			if err := client.HSet(t.Context(), task, "state", "active", "worker", worker).Err(); err != nil {
				t.Fatal(err)
			}
		}
		hold("another")
		<-begins(pulled{})
		begun := begins(pulled{follows: "first"})
		eventually.Holds(t, "it has looked twice", func() bool { return looks.Load() >= 2 })
		ended := time.Now()
		if err := client.HSet(t.Context(), task, "state", "pending").Err(); err != nil {
			t.Fatal(err)
		}
		if at := <-begun; at.Before(ended) {
			t.Error("it begins while another worker has the one before it")
		}
		hold(c.life.term.Load().id)
		<-begins(pulled{follows: "first"})
		hold("another")
		asked := time.Now()
		if at := <-begins(pulled{follows: "first"}); at.Sub(asked) < followFor {
			t.Errorf("it waits %s, want %s", at.Sub(asked), followFor)
		}
	})
}

// looking counts the looks at tasks.
type looking struct{ atomic.Int64 }

func (l *looking) DialHook(next redis.DialHook) redis.DialHook { return next }
func (l *looking) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "hmget" {
			defer l.Add(1)
		}
		return next(ctx, cmd)
	}
}
func (l *looking) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A queue that asynq's own tool has paused gives nothing, and harms nothing.
func TestAPausedQueue(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		n := newNewcomer(t, client)
		n.enqueue("job")
		queue := push.Default.Queue()
		if err := client.Set(t.Context(), shard.Named(client, "", 1)[0].QueueKey(queue, "paused"), 1, 0).Err(); err != nil {
			t.Fatal(err)
		}
		jobs, empty, err := n.once()
		if len(jobs) > 0 || !empty || err != nil {
			t.Errorf("%d jobs, empty %t, %v", len(jobs), empty, err)
		}
	})
}

// A message that no Producer of ours has made is looked through once, and not from each of
// its places: that took seconds. Of three pulls the machine stands still in all of them
// hardly ever.
func TestAHostileMessageIsPulled(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		n := newNewcomer(t, client)
		task := asynq.NewTask(asynqwire.TaskType, []byte(strings.Repeat(`"app":`, asynqwire.MaxEnvelopeSize/8)))
		for range 3 * prefetched {
			if _, err := asynq.NewClientFromRedisClient(client).Enqueue(task, asynq.Queue(shard.Named(client, "", 1)[0].Queue(push.Default.Queue())), asynq.MaxRetry(asynqwire.MaxRetry)); err != nil {
				t.Fatal(err)
			}
		}
		fastest := time.Hour
		for range 3 {
			began := time.Now()
			if jobs, _, err := n.once(); len(jobs) != prefetched || err != nil {
				t.Fatalf("%d jobs, %v", len(jobs), err)
			}
			fastest = min(fastest, time.Since(began))
		}
		if fastest > 2*time.Second {
			t.Errorf("a pull takes %s", fastest)
		}
	})
}

// An ID without a job is in nobody's hands.
func TestAnIDWithoutAJobIsDropped(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		n := newNewcomer(t, client)
		n.enqueue("one", "two")
		if err := client.Del(t.Context(), n.key("t:one")).Err(); err != nil {
			t.Fatal(err)
		}
		if ids := n.pull(); !slices.Equal(ids, []string{"two"}) {
			t.Errorf("pulled %v", ids)
		}
		if left := client.Exists(t.Context(), n.key("t:one")).Val() + client.LLen(t.Context(), n.key("active")).Val(); left != 1 {
			t.Errorf("%d are in hand", left)
		}
	})
}

// IDs without jobs, however many, do not have one pull look at all of them.
func TestManyIDsWithoutAJob(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		n := newNewcomer(t, client)
		for i := range 300 {
			if err := client.LPush(t.Context(), n.key("pending"), fmt.Sprint("gone-", i)).Err(); err != nil {
				t.Fatal(err)
			}
		}
		n.enqueue("job")
		if jobs, empty, err := n.once(); len(jobs) > 0 || empty || err != nil {
			t.Errorf("%d jobs, empty %t, %v", len(jobs), empty, err)
		}
		if ids := n.pull(); !slices.Equal(ids, []string{"job"}) {
			t.Errorf("pulled %v", ids)
		}
	})
}

// What is for a route that has no room is parked, in the order of acceptance, and whatever
// comes for that route is, until the parked ones have been pulled: by any worker. What is for
// others passes.
func TestParkedJobsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		full, other := newNewcomer(t, client), newNewcomer(t, client)
		bound := func(n *newcomer, room ...int) {
			n.client.config.Bounds = func(string, time.Time) (all []Bound) {
				for _, r := range room {
					all = append(all, Bound{Route: "shop/apns", Room: r})
				}
				return all
			}
		}
		pull := func(n *newcomer, want ...string) {
			t.Helper()
			jobs, _, err := n.once()
			var ids []string
			for _, job := range jobs {
				ids = append(ids, job.ID)
			}
			if err != nil || !slices.Equal(ids, want) {
				t.Errorf("pulled %v, %v, want %v", ids, err, want)
			}
		}
		parked := func(n *newcomer, want ...string) {
			t.Helper()
			if is := n.client.parked[n.queue]; !slices.Equal(is, want) {
				t.Errorf("it knows of jobs parked of %v, want %v", is, want)
			}
		}
		elsewhere := func(id string) {
			t.Helper()
			if _, err := push.NewProducer(client, "", 0).Enqueue(t.Context(), &push.Notification{
				ID: id, App: "shop", User: "bob", Title: "t", Targets: []push.Target{{Platform: push.FCM, Token: "f"}},
			}); err != nil {
				t.Fatal(err)
			}
		}
		full.enqueue("1", "2", "3")
		elsewhere("passes")
		bound(full, 0)
		pull(full, "passes")
		parked(full, "shop/apns")
		full.enqueue("4", "5")
		bound(full, 2)
		pull(full, "1", "2")
		parked(full, "shop/apns")
		elsewhere("passes, too")
		pull(other, "3", "4", "5", "passes, too")
		parked(other)
		pull(full)
		parked(full)
		if left := client.Exists(t.Context(), full.key("parked"), full.key("parked:shop/apns"), full.key("retry")).Val(); left > 0 {
			t.Errorf("%d keys are left of what was parked", left)
		}

		// What a worker puts back goes before those that were accepted later.
		full.enqueue("6", "7")
		bound(full, 3) // with the two that are in hand
		pull(full, "6")
		if err := putBackScript.Run(t.Context(), client, []string{full.key("active"), full.key("lease"), full.key("pending"), full.key("t:6"), full.key("idle")}, "6",
			client.ZScore(t.Context(), full.key("lease"), "6").Val(), full.id()).Err(); err != nil {
			t.Fatal(err)
		}
		pull(other, "7", "6")
	})
}

// A parked job that ends or is woken meanwhile is not pulled twice, and the place that it had
// holds nobody up. A key of another type parks nothing, and loses nothing.
func TestWhatWasParkedAndIsNoLonger(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		n := newNewcomer(t, client)
		room := 0
		n.client.config.Bounds = func(string, time.Time) []Bound { return []Bound{{Route: "shop/apns", Room: room}} }
		inspector := NewInspector(client, n.client.shard)
		n.enqueue("ends", "woken", "stays")
		if ids := n.pull(); len(ids) > 0 {
			t.Fatalf("pulled %v", ids)
		}
		if _, err := client.TxPipelined(t.Context(), func(pipe redis.Pipeliner) error {
			pipe.ZRem(t.Context(), n.key("retry"), "ends")
			pipe.Del(t.Context(), n.key("t:ends"))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := inspector.WakeAll(t.Context(), n.queue, []string{"woken"}); err != nil {
			t.Fatal(err)
		}
		if ids := n.pull(); len(ids) > 0 {
			t.Fatalf("pulled %v", ids)
		}
		room = 9
		if ids := n.pull(); !slices.Equal(ids, []string{"woken", "stays"}) {
			t.Errorf("pulled %v", ids)
		}

		room = 0
		if err := client.Set(t.Context(), n.key("parked:shop/apns"), "text", 0).Err(); err != nil {
			t.Fatal(err)
		}
		n.enqueue("one", "two")
		if ids := n.pull(); !slices.Equal(ids, []string{"one", "two"}) {
			t.Errorf("pulled %v", ids)
		}
	})
}

// A parked job says so, and for nothing else that it has returned for, and when it was due.
func TestWhatIsToldOfParkedJobs(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		n := newNewcomer(t, client)
		n.client.config.Bounds = func(string, time.Time) []Bound { return []Bound{{Route: "shop/apns"}} }
		inspector, before := NewInspector(client, n.client.shard), time.Now().Truncate(time.Microsecond)
		n.enqueue("parked")
		if ids := n.pull(); len(ids) > 0 {
			t.Fatalf("pulled %v", ids)
		}
		place, err := inspector.Find(t.Context(), n.queue, "parked")
		if err != nil || place.State != JobPutOff || place.Last != (Return{}) || !place.Due.IsZero() {
			t.Errorf("it is found as %+v, %v", place, err)
		}
		jobs, _, err := inspector.Page(t.Context(), Spot{n.queue, JobPutOff}, 0)
		if err != nil || len(jobs) != 1 || jobs[0].Last != (Return{}) || !jobs[0].Due.IsZero() || push.OnlyRoute([]byte(jobs[0].Payload)) != "shop/apns" {
			t.Errorf("it is listed as %+v, %v", jobs, err)
		}
		client.ZAdd(t.Context(), n.key("parked:shop/apns"), redis.Z{Member: "2020-01-01T00:00:00 gone"})
		if at, err := inspector.OldestDue(t.Context(), time.Now()); err != nil || at.Before(before) || at.After(time.Now()) {
			t.Errorf("the oldest is due since %s, %v, and it was accepted after %s", at, err, before)
		}
	})
}

// A job that is parked for an hour stays in its place, and holds nobody up that is due.
func TestParkedJobsStay(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		n := newNewcomer(t, client)
		room := 0
		n.client.config.Bounds = func(string, time.Time) []Bound { return []Bound{{Route: "shop/apns", Room: room}} }
		n.enqueue("one", "two", "returned")
		if ids := n.pull(); len(ids) > 0 {
			t.Fatalf("pulled %v", ids)
		}
		hourLater := func() {
			t.Helper()
			for _, id := range client.ZRange(t.Context(), n.key("retry"), 0, -1).Val() {
				client.ZAdd(t.Context(), n.key("retry"), redis.Z{Score: float64(time.Now().Add(-time.Second).Unix()), Member: id})
			}
			args := []any{time.Now().Unix(), 100, time.Now().UnixNano()}
			if err := n.client.forward(t.Context(), []string{n.client.shard.QueueKey(push.Critical.Queue(), "scheduled")}, args).Err(); err != nil {
				t.Fatal(err)
			}
		}
		hourLater()
		if pending, later := client.LLen(t.Context(), n.key("pending")).Val(), client.ZCount(t.Context(), n.key("retry"), fmt.Sprint(time.Now().Add(parkedFor/2).Unix()), "inf").Val(); pending != 0 || later != 3 {
			t.Errorf("%d are pending, and %d parked for another hour", pending, later)
		}
		if err := client.ZRem(t.Context(), n.key("parked:shop/apns"), client.ZRange(t.Context(), n.key("parked:shop/apns"), 2, 2).Val()[0]).Err(); err != nil {
			t.Fatal(err)
		}
		hourLater() // one has lost its place
		if pending := client.LRange(t.Context(), n.key("pending"), 0, -1).Val(); !slices.Equal(pending, []string{"returned"}) {
			t.Errorf("pending are %v", pending)
		}
		room = 9
		if ids := n.pull(); !slices.Equal(ids, []string{"one", "two", "returned"}) {
			t.Errorf("pulled %v", ids)
		}
	})
}

// Of parked jobs that have ended any number takes no room from the others.
func TestParkedJobsThatHaveEnded(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		n := newNewcomer(t, client)
		room := 0
		n.client.config.Bounds = func(string, time.Time) []Bound { return []Bound{{Route: "shop/apns", Room: room}} }
		n.enqueue("stays")
		if ids := n.pull(); len(ids) > 0 {
			t.Fatalf("pulled %v", ids)
		}
		for i := range 100 {
			client.ZAdd(t.Context(), n.key("parked:shop/apns"), redis.Z{Member: fmt.Sprintf("2020-01-01T00:00:00 gone-%d", i)})
		}
		client.ZAdd(t.Context(), n.key("parked:shop/apns"), redis.Z{Member: "2020"}) // nobody of ours has put it there
		room = 1
		if ids := n.pull(); !slices.Equal(ids, []string{"stays"}) {
			t.Errorf("pulled %v", ids)
		}
	})
}

// What is known of a job that is never worked off takes no room for ever.
func TestWhatIsNeverBegunIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := 0
		works := recent[handed]{drop: func(h handed) { h.begin() }}
		note := func(id string) { works.note(id, handed{nil, func() { begun++ }}) }
		note("one")
		note("one") // it is handed out again
		if begun != 1 {
			t.Errorf("%d are begun", begun)
		}
		time.Sleep(forgetAfter + time.Second)
		note("other")
		if begun != 2 {
			t.Errorf("%d are begun", begun)
		}
	})
}

// Of several pulls beside each other each has its part of the room there is, and who has more
// pulled than begun counts that.
func TestPullsShareTheRoom(t *testing.T) {
	t.Parallel()
	h, queue := NewHands(8), push.Default.Queue()
	bounds := func() []Bound { return []Bound{{Route: "shop/apns", Room: 5}} }
	room := func(queue string, want int) {
		t.Helper()
		if is := h.room(queue, bounds())[0].Room; is != want {
			t.Errorf("there is room for %d, want %d", is, want)
		}
	}
	one := h.reserve(queue, bounds())
	room(queue, 0)
	room(push.Critical.Queue(), 5)
	h.pulled(queue, one, []pulled{{route: "shop/apns"}, {route: "shop/apns"}, {}})
	room(queue, 3)
	h.begun(queue, "shop/apns")
	h.begun(queue, "")
	room(queue, 4)
	h.begun(queue, "shop/apns")
	if room(queue, 5); len(h.ahead) > 0 {
		t.Error(h.ahead)
	}
}
