package queue

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// losingPulls loses the replies to the next pulls that return a job; more is how many.
func losingPulls(more *atomic.Int32) redistest.Around {
	return func(_ context.Context, cmds []redis.Cmder, next func() error) error {
		err := next()
		answer, ok := cmds[0].(*redis.Cmd)
		if !ok || err != nil || len(answer.Args()) < 5 {
			return err
		}
		if second, _ := answer.Args()[4].(string); strings.HasSuffix(second, ":paused") { // the pull's keys
			if reply, _ := answer.Slice(); len(reply) > 3 && more.Add(-1) >= 0 {
				return redistest.Fail(cmds, io.ErrUnexpectedEOF)
			}
		}
		return err
	}
}

// After a lost pull reply, the pulled job returns when its term ends, although its worker lives and
// always has a second claimed job.
func TestJobOfLostPullReplyReturns(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, redistest.Own(t).Options())
	var more atomic.Int32
	client.AddHook(losingPulls(&more))
	c := configOf(t, client)
	c.Budget, c.ShutdownTimeout = NewBudget(6), time.Second
	s := &idler{t: t, redis: client, handled: make(chan string, 1000), Server: NewServer(c)}
	s.idle.poll, s.idle.limit = 20*time.Millisecond, redistest.Patience
	s.liveness.every, s.liveness.validFor = 20*time.Millisecond, 2*time.Second
	s.Start(t.Context(), s)
	t.Cleanup(s.Shutdown)
	s.enqueue("first", push.Default)
	s.expectHandled("first")
	more.Store(2)
	s.enqueue("lost", push.Default)
	s.enqueue("urgent", push.Critical)
	got := map[string]bool{}
	for range 2 {
		select {
		case id := <-s.handled:
			got[id] = true
		case <-time.After(redistest.Patience):
			t.Fatalf("handled are %v", got)
		}
	}
	if more.Load() >= 0 {
		t.Error("no answer was lost")
	}
	if !got["lost"] || !got["urgent"] {
		t.Errorf("handled are %v", got)
	}
}

// After an error of Redis a worker pulls in a new term. It keeps the old term alive until the
// term's jobs are released. After that its orphaned jobs return.
func TestTermEndsAfterRedisError(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		n, other := newTestWorker(t, client), newTestWorker(t, client)
		n.enqueue("held", "stray")
		if got := n.pull(); len(got) != 2 {
			t.Fatalf("pulled %q", got)
		}
		old := n.liveness.term.Load()
		old.release() // as if the reply with "stray" had been lost
		n.liveness.every = 0
		n.liveness.suspect()
		n.signs()
		n.enqueue("new")
		if got := n.pull(); !slices.Equal(got, []string{"new"}) || n.got["new"].Term == old {
			t.Fatalf("pulled %q, in the old term: %t", got, n.got["new"].Term == old)
		}
		if old.Lost(t.Context()) || n.got["new"].Term.Lost(t.Context()) {
			t.Error("a term is lost")
		}
		other.reap(t.Context(), other.established().signs())
		if err := n.putsOff("held"); err != nil {
			t.Errorf("a claimed job of the old term: %v", err)
		}
		old.release()
		n.signs()
		must(t, client.ZAddXX(t.Context(), n.Records.Key("signs"), redis.Z{Score: 1, Member: old.id}).Err()) // long ago
		n.signs()
		other.reap(t.Context(), other.established().signs())
		if got := other.pull(); !slices.Equal(got, []string{"stray"}) {
			t.Errorf("of the old term come back %q", got)
		}
		if back := n.givesBack("new"); back != 1 {
			t.Error("the new term's job has gone")
		}
	})
}

// A job does not end while its record says that the notification waits: a failover has undone the
// settlement. It ends if the notification waits on a different queue, as that queue has the
// notification's job.
func TestEndUndoneByFailoverLeavesJob(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		n := newTestWorker(t, client)
		n.enqueue("recorded", "undone", "elsewhere")
		n.pull()
		for _, err := range []error{
			client.HSet(t.Context(), n.Records.Key("id:recorded"), "state", "delivered").Err(),
			client.HSet(t.Context(), n.Records.Key("id:elsewhere"), "queue", push.Bulk.Queue()).Err(),
		} {
			must(t, err)
		}
		for _, id := range []string{"recorded", "undone", "elsewhere"} {
			n.finish(&claimedJob{Job: n.got[id]}, nil)
		}
		if active, err := client.LRange(t.Context(), n.key("active"), 0, -1).Result(); err != nil || !slices.Equal(active, []string{"undone"}) {
			t.Errorf("claimed are %q, %v", active, err)
		}
		if n.liveness.every = 0; !n.liveness.needsNewTerm() {
			t.Error("nothing is suspected")
		}
	})
}

// With a key of the wrong type the move does not begin, so that no job is in two places. A job
// without a worker does not stay claimed.
func TestMoveWithWrongKeyTypeChangesNothing(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		n := newTestWorker(t, client)
		n.enqueue("job", "nobody's")
		n.pull()
		must(t, client.Set(t.Context(), n.key("due"), "x", 0).Err())
		if err := n.putsOff("job"); err == nil || client.ZCard(t.Context(), n.key("retry")).Val() > 0 {
			t.Errorf("it is put off half: %v", err)
		}
		must(t, client.HDel(t.Context(), n.key("t:nobody's"), "worker").Err())
		if back, err := n.Records.Reap(t.Context()); back != 1 || err != nil {
			t.Errorf("%d came back, %v", back, err)
		}
		if active := client.LRange(t.Context(), n.key("active"), 0, -1).Val(); !slices.Equal(active, []string{"job"}) {
			t.Errorf("claimed are %q", active)
		}
	})
}
