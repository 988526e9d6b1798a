// Package queue takes jobs off the queues of a shard and hands them to a Handler, which returns a
// Result for each. The store makes the moves; this package decides when:
//
//   - loop.go pulls as many jobs as there is room for, and has each worked off in a goroutine.
//   - What takes a job out of hand is insisted on.
//   - Signs of life say whose jobs are whose: see term.go.
//   - An idle worker waits for a word that a job is due, which may be lost, and polls: see
//     idle.go.
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

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/repeats"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/clock"
)

// A Job is one that a server has taken in hand.
type Job struct {
	store.Job
	// Term is the one in which it was pulled, and At the server that has pulled it.
	Term *Term
	At   *Server
	// Arrived takes it off what is on its way to its route. It is called, once at least, when it is
	// there, or does not come.
	Arrived func()
}

// A Handler works off jobs.
type Handler interface {
	// Take takes a job in hand. The jobs of a queue are taken one after another, in the
	// order in which they lie there; what they come to is worked off side by side.
	Take(job Job) Work
}

// Work works off a job.
type Work func(ctx context.Context) Result

// A Result is the handler's answer for a job: Ended, Back, Aside or Lost.
type Result interface{ result() }

// Ended ends the job. With Outcomes its notification is delivered, at the first attempt, and is
// settled in the same step; without it has ended before.
type Ended struct{ Outcomes []store.TargetOutcome }

// Back returns the job to its queue.
type Back struct {
	store.PutOff
	// Unnoted is called when the record does not have the attempt; nil where there is none.
	Unnoted func()
}

// Aside keeps the job as a dead letter: it is no notification.
type Aside struct {
	Reason store.MalformedReason
	Why    string
}

// Lost leaves the job alone: another worker may have it.
type Lost struct{}

func (Ended) result() {}
func (Back) result()  {}
func (Aside) result() {}
func (Lost) result()  {}

// Config says what a Server works with. All of it is required.
type Config struct {
	Client redis.UniversalClient
	// Records are the shard's whose queues these are.
	Records *store.Shard
	// Hands are those of all servers of the process.
	Hands *Hands
	// ShutdownTimeout bounds the end of what is under way.
	ShutdownTimeout time.Duration
	// Room returns what a pull of so many jobs at most may take of a queue, of which jobs are parked
	// by these names. The room is the pull's until it calls taken, which sets Arrived of its jobs.
	Room func(queue string, most int, parked []string) (bounds []store.Bound, taken func([]Job))
	// Opens reports whether there is room for some of what is parked by these names.
	Opens func(queue string, parked []string) bool
	// SetAside is told how a job ends that the handler never sees.
	SetAside func(push.State)
	Log      *slog.Logger
	// RedisLog is told what fails for want of Redis.
	RedisLog *slog.Logger
}

// A Server pulls a shard's jobs and has them handled.
type Server struct {
	Config
	handler  Handler
	refusals refusals
	repeats  repeats.Log // what jobs can have it say again and again
	batches  *pipeline.Batches[batch]
	failed   atomic.Bool // the last pull

	idle *idle
	life *life
	// settles has what became of notifications that are delivered, and whose jobs have not ended.
	settles *lru.Cache[string, []store.TargetOutcome]

	mu     sync.Mutex
	begun  int64               // jobs
	inHand map[*taken]int64    // in their order
	parked map[string][]string // by queue: by which names jobs were parked at the last pull

	ending  context.Context // ends when the server is to end
	end     context.CancelFunc
	cut     context.CancelFunc // ends the work
	moving  context.Context    // ends when what was in hand is given back
	stopped context.CancelFunc
	beside  sync.WaitGroup // listens
	pulling sync.WaitGroup // the loop
	working sync.WaitGroup // jobs
	signing sync.WaitGroup // signs
	signOff context.CancelCauseFunc
}

// NewServer returns a server that has not started yet.
func NewServer(c Config) *Server {
	ending, end := context.WithCancel(context.Background())
	moving, stopped := context.WithCancel(context.Background())
	settles, _ := lru.New[string, []store.TargetOutcome](MaxUnrecorded) // which fails for sizes below 1
	return &Server{
		Config: c, settles: settles, refusals: refusals{log: c.RedisLog}, batches: pipeline.NewBatches[batch](c.Client),
		idle: newIdle(c.Records), life: newLife(),
		inHand: map[*taken]int64{}, parked: map[string][]string{},
		ending: ending, end: end, cut: func() {}, moving: moving, stopped: stopped, signOff: func(error) {},
	}
}

// Start begins to pull. What the handler has in hand when ctx ends is cut off, and must not go
// on: it is put back on the queue.
func (s *Server) Start(ctx context.Context, h Handler) {
	s.handler = h
	ctx, s.cut = context.WithCancel(ctx)
	s.sign()
	s.beside.Go(func() { s.idle.listen(s.ending, s.Client, s.RedisLog) })
	s.pulling.Go(func() { s.run(ctx) })
}

// Shutdown stops pulling, lets what is under way end, within ShutdownTimeout, and
// puts the rest back on the queue.
func (s *Server) Shutdown() {
	defer s.repeats.Close()
	s.end()
	s.pulling.Wait()
	s.drain(s.ShutdownTimeout)
	s.beside.Wait()
	var left error
	if !s.giveBack() || s.life.doubted() {
		left = errLeft
	}
	s.stopped()
	s.drain(clock.LastTimeout) // what is cut off returns at once
	s.signOff(left)
	s.signing.Wait()
}

// drain waits for what is in hand, for so long at most.
func (s *Server) drain(most time.Duration) {
	done := make(chan struct{})
	go func() { s.working.Wait(); close(done) }()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// giveBack cuts off what is in hand still, so that nothing of it is sent from now on, and puts it
// back in the order in which it was taken. It reports whether it has.
func (s *Server) giveBack() bool {
	of := map[string][]store.Job{}
	s.mu.Lock()
	left := slices.SortedFunc(maps.Keys(s.inHand), func(a, b *taken) int { return cmp.Compare(s.inHand[a], s.inHand[b]) })
	s.mu.Unlock()
	s.cut()
	for _, t := range left {
		t.Term.end()
		of[t.Queue] = append(of[t.Queue], t.Job.Job)
	}
	ctx, cancel := context.WithTimeout(context.Background(), clock.LastTimeout)
	defer cancel()
	all := true
	for queue, jobs := range of {
		if _, err := s.Records.GiveBack(ctx, queue, jobs); err != nil {
			s.Log.Warn("jobs in hand are not put back, and come back when this worker is taken for dead", "queue", queue, "error", err)
			all = false
		}
	}
	return all
}

// errLeft is why a worker does not sign off: what it has left is found when it is dead.
var errLeft = errors.New("some jobs are not put back")

// MaxUnrecorded bounds the notifications that a process has sent, whose ends Redis refuses to
// record, and that it remembers: ten times what it has in hand at most, as nothing is pulled
// meanwhile. One that is forgotten is sent again; with more, a Redis that refuses writes for long
// fills the process's memory.
const MaxUnrecorded = 100_000

// Settling reports whether this process has delivered the notification, and that is not
// recorded: what comes back is not to be sent again.
func (s *Server) Settling(id string) bool { return s.settles.Contains(id) }

// Persist repeats a write that fails for so long at most: what was sent and is not
// recorded would be sent again. Nothing is pulled while Redis refuses it.
func (s *Server) Persist(ctx context.Context, limit time.Duration, write func() error) error {
	return s.refusals.persist(ctx, limit, write)
}

// Refused reports whether what came from that queue is not to be sent now, since
// Redis refuses to record it.
func (s *Server) Refused(queue string) bool { return s.refusals.held(queue) }

// Pulls reports whether the last pull was answered.
func (s *Server) Pulls() bool { return !s.failed.Load() }
