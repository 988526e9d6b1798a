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

// stuck is a handler that waits until its jobs are cancelled, and then sends if the term is not
// over.
type stuck struct {
	sent chan string
}

func (s stuck) Take(job Job) Work {
	return func(ctx context.Context) Result {
		<-ctx.Done()
		if job.Term.Valid() || !job.Term.Lost(context.Background()) {
			s.sent <- job.ID
		}
		return Lost{}
	}
}

// A job cancelled by Shutdown is not sent afterwards, and keeps its position in its queue.
func TestShutdownCancelsVisitsBeforeReturningJobs(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	c := configOf(t, client)
	c.Budget, c.ShutdownTimeout = NewBudget(100), 50*time.Millisecond
	s, h := NewServer(c), stuck{make(chan string, 100)}
	n := &testWorker{Server: s, queue: push.Default.Queue(), t: t}
	var ids []string
	for i := range 20 {
		ids = append(ids, fmt.Sprint("job-", i))
	}
	n.enqueue(ids...)
	s.Start(t.Context(), h)
	eventually.Holds(t, "all jobs are claimed", func() bool { return countOf(c.Budget) == len(ids) })
	s.Shutdown()
	if countOf(c.Budget) > 0 || len(h.sent) > 0 {
		t.Errorf("%d jobs are claimed, %d were sent", countOf(c.Budget), len(h.sent))
	}
	if got := newTestWorker(t, client).pull(); !slices.Equal(got, ids) {
		t.Errorf("the queue holds %q", got)
	}
	if left := client.ZCard(t.Context(), n.Records.Key("signs")).Val(); left != 1 { // the testWorker
		t.Errorf("%d sign", left)
	}
}

// A queue with a key of the wrong type does not stop other queues.
func TestQueueOfWrongTypeStopsNoOtherQueue(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	s := idling(t, client, 20*time.Millisecond)
	must(t, client.Set(t.Context(), s.Records.QueueKey(push.Critical.Queue(), "pending"), "x", 0).Err())
	for i := range 200 {
		id := fmt.Sprint("job-", i)
		s.enqueue(id, push.Default)
		s.expectHandled(id)
	}
	if s.liveness.suspected() || s.failed.Load() {
		t.Error("the error of one queue is taken for an error of the shard")
	}
}

// If capacity frees up one job at a time, due jobs and new jobs alternate.
func TestDueAndNewJobsAlternate(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	n := newTestWorker(t, client)
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

// A worker does not pull in a term without a heartbeat, as a reap would take the jobs.
func TestNewTermBeginsWithHeartbeat(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	n := newTestWorker(t, client)
	old := n.liveness.term.Load()
	n.liveness.every = 0
	n.liveness.suspect()
	ended, end := context.WithCancel(t.Context())
	end()
	if _, _, err := n.heartbeat(ended); err == nil || n.liveness.term.Load() != old {
		t.Errorf("another term has begun without a heartbeat, %v", err)
	}
	n.signs()
	if now := n.liveness.term.Load(); now == old || !now.Valid() {
		t.Error("no other term has begun")
	}
}

// countOf returns the number of claimed jobs.
func countOf(h *Budget) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, some := range h.of {
		n += some
	}
	return n
}
