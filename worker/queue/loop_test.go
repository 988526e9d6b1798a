package queue

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// stuck is a handler whose jobs wait until they are cut off, and then send if they may.
type stuck struct {
	sent chan string
}

func (s stuck) Take(job Job) Work {
	return func(ctx context.Context) Result {
		<-ctx.Done()
		if job.Term.Sure() || !job.Term.Lost(context.Background()) {
			s.sent <- job.ID
		}
		return Lost{}
	}
}

// What a stop cuts off is not sent after it was given back, and lies on the queue in its order.
func TestAStopCutsOffBeforeItGivesBack(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	c := configOf(t, client)
	c.Hands, c.ShutdownTimeout = NewHands(100), 50*time.Millisecond
	s, h := NewServer(c), stuck{make(chan string, 100)}
	n := &newcomer{Server: s, queue: push.Default.Queue(), t: t}
	var ids []string
	for i := range 20 {
		ids = append(ids, fmt.Sprint("job-", i))
	}
	n.enqueue(ids...)
	s.Start(t.Context(), h)
	eventually.Holds(t, "all are in hand", func() bool { return countOf(c.Hands) == len(ids) })
	s.Shutdown()
	if countOf(c.Hands) > 0 || len(h.sent) > 0 {
		t.Errorf("%d are in hand, %d were sent", countOf(c.Hands), len(h.sent))
	}
	if got := newNewcomer(t, client).pull(); !slices.Equal(got, ids) {
		t.Errorf("back are %q", got)
	}
	if left := client.ZCard(t.Context(), n.Records.Key("signs")).Val(); left != 1 { // the newcomer
		t.Errorf("%d sign", left)
	}
}

// A queue that has a key of another type stops no other queue, and what strays comes back
// nevertheless.
func TestAQueueOfAnotherTypeStopsNoOther(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	s := idling(t, client, 20*time.Millisecond)
	must(t, client.Set(t.Context(), s.Records.QueueKey(push.Critical.Queue(), "pending"), "x", 0).Err())
	for i := range 200 {
		id := fmt.Sprint("job-", i)
		s.enqueue(id, push.Default)
		s.isHanded(id)
	}
	if s.life.doubted() || s.failed.Load() {
		t.Error("what is of one queue is taken for trouble of all")
	}
}

// Where hands come free one by one, those that have waited for their turn and those that are
// new take turns.
func TestDueOnesAndNewOnesTakeTurns(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	n := newNewcomer(t, client)
	n.enqueue("due-0", "due-1", "due-2", "due-3", "due-4")
	n.pull()
	for i := range 5 {
		job := n.got[fmt.Sprint("due-", i)]
		must(t, n.Records.PutOff(t.Context(), &job.Job, &store.PutOff{Return: store.Return{Why: store.Deferred}}))
	}
	n.enqueue("new-0", "new-1", "new-2")
	n.failed.Store(true) // one at a time
	fresh := 0
	for range 6 {
		jobs, err := n.take(n.queue)
		if err != nil || len(jobs) != 1 {
			t.Fatalf("pulled %v, %v", jobs, err)
		}
		if jobs[0].Back.IsZero() {
			fresh++
		}
	}
	if fresh < 2 || fresh > 4 {
		t.Errorf("%d of 6 are new", fresh)
	}
}

// Nothing is pulled in a term that has not signed: a look for what is in nobody's hands would
// take it.
func TestANewTermSignsFirst(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	n := newNewcomer(t, client)
	old := n.life.term.Load()
	n.life.every = 0
	n.life.suspect()
	ended, end := context.WithCancel(t.Context())
	end()
	if _, _, err := n.signAll(ended); err == nil || n.life.term.Load() != old {
		t.Errorf("another term has begun without a sign, %v", err)
	}
	n.signs()
	if now := n.life.term.Load(); now == old || !now.Sure() {
		t.Error("no other term has begun")
	}
}

// countOf is how many are in hand.
func countOf(h *Hands) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, some := range h.of {
		n += some
	}
	return n
}
