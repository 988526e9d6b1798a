// Package queue pulls jobs from the queues of a shard, calls a Handler for each and applies the
// Result that it returns. Start with Server. The store makes the moves; this package decides
// when:
//
//   - loop.go pulls while the budget has room, and runs each job in its own goroutine. It
//     retries each move that releases a claimed job.
//   - term.go sends the heartbeats that decide which worker owns a job.
//   - idle.go waits for wake-ups while the queues are empty. A wake-up may get lost, so idle.go also
//     polls.
//
// Without a valid heartbeat, a worker must not send.
package queue

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/logdedup"
	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/clock"
)

// A Job is a job that a server has claimed.
type Job struct {
	store.Job
	// Term is the term in which the job was pulled. At is the server that pulled it.
	Term *Term
	At   *Server
	// Arrived ends the reservation that the pull made on the job's route. The handler calls it at
	// least once: when the job has reached the route, or will not.
	Arrived func()
}

// A Handler handles jobs.
type Handler interface {
	// Take prepares a claimed job. The server calls it for the jobs of a queue one after another,
	// in queue order. It runs the returned Work concurrently.
	Take(job Job) Work
}

// Work handles a job.
type Work func(ctx context.Context) Result

// A Result is the handler's answer for a job: Ended, Postponed, Malformed or Lost.
type Result interface{ result() }

// Ended ends the job. With Outcomes the first attempt delivered the notification, and the same
// step settles it. Without Outcomes, the notification has already ended.
type Ended struct{ Outcomes []store.TargetOutcome }

// Postponed returns the job to its queue to run later.
type Postponed struct {
	store.PutOff
	// Unnoted is called if the record could not store the attempt; nil without an attempt.
	Unnoted func()
}

// Malformed stores a malformed job as a dead letter.
type Malformed struct {
	Reason store.MalformedReason
	Why    string
}

// Lost leaves the job alone, as another worker may own it.
type Lost struct{}

func (Ended) result()     {}
func (Postponed) result() {}
func (Malformed) result() {}
func (Lost) result()      {}

// Config configures a Server. All fields are required.
type Config struct {
	Client redis.UniversalClient
	// Records is the shard of the queues.
	Records *store.Shard
	// Budget is shared by all servers of the process.
	Budget *Budget
	// ShutdownTimeout is how long Shutdown waits for running jobs.
	ShutdownTimeout time.Duration
	// Reserve reserves capacity for a pull of up to most jobs from a queue. parked has the names under
	// which the queue has parked jobs. The pull calls taken with the jobs that it claimed: taken ends the
	// unused reservation, and sets Arrived of the jobs.
	Reserve func(queue string, most int, parked []string) (bounds []store.Bound, taken func([]Job))
	// CanUnpark reports whether one of the given parked names has capacity again.
	CanUnpark func(queue string, parked []string) bool
	// SetAside is called with the final state of each malformed job.
	SetAside func(push.State)
	Log      *slog.Logger
	// RedisLog logs errors of Redis.
	RedisLog *slog.Logger
}

// A Server pulls a shard's jobs and runs them.
type Server struct {
	Config
	handler  Handler
	refusals refusals
	repeats  logdedup.Log // logs that a job can cause repeatedly
	batches  *pipeline.Batches[batch]
	failed   atomic.Bool // the last pull failed

	idle     *idle
	liveness *liveness
	// settles has the outcomes, by ID, of delivered notifications with jobs that have not ended.
	settles *lru.Cache[string, []store.TargetOutcome]

	mu      sync.Mutex
	begun   int64                 // number of jobs begun
	claimed map[*claimedJob]int64 // by order of begin
	parked  map[string][]string   // by queue: the parked names of the last pull

	ending     context.Context // ends when Shutdown begins
	end        context.CancelFunc
	cut        context.CancelFunc // cancels the jobs
	moving     context.Context    // ends after Shutdown has returned the claimed jobs
	stopped    context.CancelFunc
	listening  sync.WaitGroup // the listener
	pulling    sync.WaitGroup // the loop
	working    sync.WaitGroup // jobs
	heartbeats sync.WaitGroup // heartbeats
	signOff    context.CancelCauseFunc
}

// NewServer returns a server. It does not pull before Start.
func NewServer(c Config) *Server {
	ending, end := context.WithCancel(context.Background())
	moving, stopped := context.WithCancel(context.Background())
	settles, _ := lru.New[string, []store.TargetOutcome](MaxUnrecorded) // fails only for sizes below 1
	return &Server{
		Config: c, settles: settles, refusals: refusals{log: c.RedisLog}, batches: pipeline.NewBatches[batch](c.Client),
		idle: newIdle(c.Records), liveness: newLiveness(),
		claimed: map[*claimedJob]int64{}, parked: map[string][]string{},
		ending: ending, end: end, cut: func() {}, moving: moving, stopped: stopped, signOff: func(error) {},
	}
}

// Start begins to pull. When ctx ends, running jobs are cancelled and return to their queues. The
// handler must not continue with them.
func (s *Server) Start(ctx context.Context, h Handler) {
	s.handler = h
	ctx, s.cut = context.WithCancel(ctx)
	s.startHeartbeat()
	s.listening.Go(func() { s.idle.listen(s.ending, s.Client, s.RedisLog) })
	s.pulling.Go(func() { s.run(ctx) })
}

// Shutdown stops pulling, waits up to ShutdownTimeout for running jobs, and returns the unfinished
// jobs to their queues.
func (s *Server) Shutdown() {
	defer s.repeats.Close()
	s.end()
	s.pulling.Wait()
	s.drain(s.ShutdownTimeout)
	s.listening.Wait()
	var left error
	if !s.giveBack() || s.liveness.suspected() {
		left = errLeft
	}
	s.stopped()
	s.drain(clock.LastTimeout) // cancelled jobs return at once
	s.signOff(left)
	s.heartbeats.Wait()
}

// drain waits up to timeout for the running jobs.
func (s *Server) drain(timeout time.Duration) {
	done := make(chan struct{})
	go func() { s.working.Wait(); close(done) }()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// giveBack ends the terms of the claimed jobs and then cancels the jobs, as a cancelled job with a
// valid term might send. It returns the jobs to their queues in the order in which they were pulled,
// and reports whether that succeeded.
func (s *Server) giveBack() bool {
	of := map[string][]store.Job{}
	s.mu.Lock()
	left := slices.SortedFunc(maps.Keys(s.claimed), func(a, b *claimedJob) int { return cmp.Compare(s.claimed[a], s.claimed[b]) })
	s.mu.Unlock()
	for _, t := range left {
		t.Term.end()
		of[t.Queue] = append(of[t.Queue], t.Job.Job)
	}
	s.cut()
	ctx, cancel := context.WithTimeout(context.Background(), clock.LastTimeout)
	defer cancel()
	all := true
	for queue, jobs := range of {
		if _, err := s.Records.GiveBack(ctx, queue, jobs); err != nil {
			s.Log.Warn("claimed jobs could not be returned to their queue; they return when other workers take this worker for dead", "queue", queue, "error", err)
			all = false
		}
	}
	return all
}

// errLeft is the cause with which a worker ends without signing off: other workers find its jobs once it
// is dead.
var errLeft = errors.New("some claimed jobs could not be returned")

// MaxUnrecorded bounds the sent notifications that a process remembers because Redis refuses to record
// their ends. It is over ten times the maximum of claimed jobs, which is enough as nothing is pulled
// meanwhile. Beyond the bound, a notification may be sent again. Without a bound, a Redis that refuses
// writes for long would fill the process's memory.
const MaxUnrecorded = 100_000

// IsUnrecorded reports whether this process has delivered the notification and not yet recorded the
// delivery. It must not send it again.
func (s *Server) IsUnrecorded(id string) bool { return s.settles.Contains(id) }

// Persist retries a failed write for at most limit, since an unrecorded notification would be
// sent again. While Redis refuses the write, nothing is pulled.
func (s *Server) Persist(ctx context.Context, limit time.Duration, write func() error) error {
	return s.refusals.persist(ctx, limit, write)
}

// Refused reports whether jobs of that queue must not be sent now, because Redis refuses writes.
func (s *Server) Refused(queue string) bool { return s.refusals.blocks(queue) }

// Pulls reports whether the last pull succeeded.
func (s *Server) Pulls() bool { return !s.failed.Load() }
