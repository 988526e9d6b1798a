package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/worker/clock"
)

// A killed worker leaves claimed jobs behind. Only heartbeats decide which worker owns a job:
//
//   - A worker sends a heartbeat for each of its terms to the shard once a second. Redis's clock
//     dates it, and every job that the worker pulls names the term.
//   - A term without a heartbeat for twice validFor is dead. Another worker records that, which
//     ends the term for good, and returns its jobs to the heads of their queues.
//   - A stopped or disconnected worker cannot know whether others took it for dead. From validFor after
//     its last heartbeat it starts no send until the next heartbeat succeeds. If its term is dead, it
//     begins a new term and drops the jobs of the dead term.
//   - While Redis is unreachable, no worker can send a heartbeat, which must not make it dead. A worker
//     that had no reply for validFor first sends heartbeats for validFor, in which the others can send
//     theirs. Only then it judges which terms are dead.
//   - A job may name a live term although no worker runs the job: the reply to its pull was lost, or a
//     failover has undone its end. So after an error of the shard's Redis a worker pulls in a new term.
//     It keeps the old term alive until its known jobs are released. Then the old term dies, and other
//     workers reap its orphaned jobs.
//   - Once a minute, a worker that may judge reaps jobs of terms without a heartbeat.
//   - The leader does the work for which one worker is enough. Its term is the first, by name, of the
//     live terms. When the leader is dead, the next term leads from its next heartbeat on. A draining
//     worker leads until it signs off. A new term may lead beside the old leader for a second.
//
// The heartbeats lie on the queues' node of a Cluster, so that no other node is needed for them.

const (
	// heartbeatEvery is the interval between two heartbeats: a worker stops sending after three lost
	// heartbeats.
	heartbeatEvery = time.Second
	// validFor is the validity of a heartbeat. Without a valid heartbeat a worker sends nothing more, and
	// it is dead after 2*validFor, when its sends are over. 2*validFor, heartbeatEvery and one failed
	// reap fit in the 15 s by which a killed worker may delay a line.
	validFor = 4 * time.Second
	// reapEvery is the interval at which a worker looks for orphaned jobs. Only a lost reply or a
	// failover leaves one, and the search reads all claimed jobs.
	reapEvery = time.Minute
)

// A Term is a period in which a worker sends heartbeats under one ID. Jobs that it pulls in a
// term are its own until the term is over.
type Term struct {
	id     string
	signed bool         // a heartbeat succeeded; only keepAlive's goroutine uses it
	held   atomic.Int64 // claimed jobs and running pulls
	visits atomic.Int64 // pulls

	mu      sync.Mutex
	until   time.Time     // the end of its last heartbeat's validity
	over    bool          // another worker took it for dead
	ended   bool          // this process has returned the term's jobs
	changed chan struct{} // closed and replaced when until or over changes
}

func newTerm() *Term { return &Term{id: rand.Text()[:8], changed: make(chan struct{})} }

// visit returns the number of the next pull.
func (t *Term) visit() int64 { return t.visits.Add(1) }

// release subtracts a job or pull from the term.
func (t *Term) release() { t.held.Add(-1) }

// Valid reports whether the last heartbeat is still valid.
func (t *Term) Valid() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Now().Before(t.until)
}

// Lost reports whether the term is over, so that its jobs may belong to another worker. If the last
// heartbeat is no longer valid, Lost waits for the next heartbeat. It returns true if ctx ends first.
func (t *Term) Lost(ctx context.Context) bool {
	for {
		t.mu.Lock()
		over, until, changed := t.over, t.until, t.changed
		t.mu.Unlock()
		if over || time.Now().Before(until) {
			return over
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return true
		}
	}
}

// end ends the term for this process: nothing more is sent in it.
func (t *Term) end() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.update(time.Time{}, true)
}

// update stores the result of a heartbeat.
func (t *Term) update(until time.Time, over bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.until, t.over = until, over || t.ended; t.ended {
		t.until = time.Time{}
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

// A liveness holds a worker's terms in one shard.
type liveness struct {
	every, validFor time.Duration
	timeout         time.Duration        // time-out of a heartbeat; leaves time for a second try
	term            atomic.Pointer[Term] // the current term, in which pulls run
	before          []*Term              // earlier terms with claimed jobs; only keepAlive's goroutine uses it
	leader          atomic.Pointer[Term] // the term that leads by its last heartbeat; nil for none
	// last is when the last answered heartbeat was sent. since is the start of the unbroken
	// series of heartbeats that last belongs to.
	last, since time.Time
	reaping     atomic.Bool
	reaped      time.Time // when the last reap began

	mu          sync.Mutex
	suspectedAt time.Time // when an error first cast doubt on the term; zero for none
}

func newLiveness() *liveness {
	l := &liveness{every: heartbeatEvery, validFor: validFor, timeout: validFor / 2}
	l.term.Store(newTerm())
	return l
}

// hold returns the current term and counts one more job or pull in it.
func (l *liveness) hold() *Term {
	for {
		term := l.term.Load()
		term.held.Add(1)
		if term == l.term.Load() {
			return term
		}
		term.release()
	}
}

// suspect notes that the term may have jobs that are unknown to this worker.
func (l *liveness) suspect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.suspectedAt.IsZero() {
		l.suspectedAt = time.Now()
	}
}

// begin replaces the current term by next. next must have sent a heartbeat: no pull runs in a
// term without one.
func (l *liveness) begin(next *Term) (before *Term) {
	l.mu.Lock()
	l.suspectedAt = time.Time{}
	l.mu.Unlock()
	return l.term.Swap(next)
}

// leads stores whether the term leads.
func (l *liveness) leads(t *Term, leads bool) {
	if leads {
		l.leader.Store(t)
	} else {
		l.leader.CompareAndSwap(t, nil)
	}
}

// Leads reports whether this worker is the shard's leader.
func (s *Server) Leads() bool {
	t := s.liveness.leader.Load()
	return t != nil && t.Valid()
}

// needsNewTerm reports whether it is time for a new term. It waits for one interval after an
// error, as a cancelled pull may still run.
func (l *liveness) needsNewTerm() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.suspectedAt.IsZero() && time.Since(l.suspectedAt) >= l.every
}

// suspected reports whether there was an error since the term began.
func (l *liveness) suspected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.suspectedAt.IsZero()
}

// startHeartbeat starts the heartbeats. It returns after the first attempt, so that nothing is pulled
// before it.
func (s *Server) startHeartbeat() {
	ctx, cancel := context.WithCancelCause(context.Background())
	s.signOff = cancel
	var first sync.WaitGroup
	first.Add(1)
	s.heartbeats.Go(func() { s.keepAlive(ctx, first.Done) })
	first.Wait()
}

// keepAlive sends heartbeats until ctx ends, and then signs off, unless the cause is errLeft. It
// calls begun after the first attempt.
func (s *Server) keepAlive(ctx context.Context, begun func()) {
	begun = sync.OnceFunc(begun)
	var side sync.WaitGroup
	defer side.Wait()
	unsure := clock.Trouble{
		Log:    s.RedisLog.With("shard", s.Records.Number),
		Begins: "this worker sends nothing of a shard: its heartbeat fails, and other workers may take it for dead",
		Ends:   "the worker's heartbeat succeeds again",
	}
	clock.Every(ctx, s.liveness.every, func() {
		dead, reaps, err := s.heartbeat(ctx)
		begun()
		var why []slog.Attr
		if err != nil {
			why = append(why, slog.Any("error", err))
		}
		unsure.Note(ctx, err != nil && !s.liveness.term.Load().Valid(), why...)
		if reaps && s.liveness.reaping.CompareAndSwap(false, true) {
			side.Go(func() {
				defer s.liveness.reaping.Store(false)
				s.reap(ctx, dead)
			})
		}
	})
	if context.Cause(ctx) == errLeft || time.Since(s.liveness.last) > s.liveness.validFor { // Redis does not answer
		return
	}
	last, cancel := context.WithTimeout(context.Background(), s.liveness.timeout)
	defer cancel()
	_ = s.Records.RemoveHeartbeats(last, s.liveness.term.Load().id) // if it fails, the term dies, as earlier terms do
}

// heartbeat sends the heartbeats of all terms. It returns the dead terms of other workers, and whether to
// reap.
func (s *Server) heartbeat(ctx context.Context) (dead []string, reaps bool, err error) {
	l, now := s.liveness, time.Now()
	if now.Sub(l.last) > l.validFor {
		l.since = now
	}
	judges := now.Sub(l.since) >= l.validFor
	dead, err = s.heartbeatFor(ctx, l.term.Load(), judges)
	if errors.Is(err, store.ErrDead) {
		s.RedisLog.LogAttrs(ctx, slog.LevelWarn, "other workers took this worker for dead and have its claimed jobs",
			slog.Int("shard", s.Records.Number), slog.Duration("unseen", now.Sub(l.last)))
		dead, err = s.renew(ctx, false)
	} else if err == nil && l.needsNewTerm() {
		_, err = s.renew(ctx, true)
	}
	l.before = slices.DeleteFunc(l.before, func(t *Term) bool { return t.done() })
	for _, t := range l.before {
		_, _ = s.heartbeatFor(ctx, t, false)
	}
	if err != nil {
		l.suspect()
		return nil, false, err
	}
	l.last = now
	if !judges || len(dead) == 0 && now.Sub(l.reaped) < reapEvery {
		return nil, false, nil
	}
	l.reaped = now
	return dead, true, nil
}

// renew replaces the current term, once the new one has sent a heartbeat. If keep is true, the old term
// stays alive for its claimed jobs.
func (s *Server) renew(ctx context.Context, keep bool) (dead []string, err error) {
	next := newTerm()
	if dead, err = s.heartbeatFor(ctx, next, false); err == nil {
		if before := s.liveness.begin(next); keep {
			s.liveness.before = append(s.liveness.before, before)
		}
	}
	return dead, err
}

// done reports whether the term needs no more heartbeats: it has no claimed jobs, or it is over.
func (t *Term) done() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over || t.held.Load() == 0
}

// heartbeatFor sends a term's heartbeat.
func (s *Server) heartbeatFor(ctx context.Context, t *Term, judges bool) (dead []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.liveness.timeout)
	defer cancel()
	now := time.Now() // before the call, so that Redis's instant is later
	dead, leads, err := s.Records.Heartbeat(ctx, store.Heartbeat{Term: t.id, First: !t.signed, Dead: 2 * s.liveness.validFor, Judges: judges})
	switch {
	case errors.Is(err, store.ErrDead):
		t.update(time.Time{}, true)
	case err == nil:
		t.signed = true
		t.update(now.Add(s.liveness.validFor), false)
		s.liveness.leads(t, leads)
	}
	return dead, err
}

// reap returns orphaned jobs to their queues, and then removes dead terms. Until that succeeds,
// the next heartbeat finds the terms again. Several workers may reap at once.
func (s *Server) reap(ctx context.Context, dead []string) {
	n, err := s.Records.Reap(ctx)
	if err == nil && len(dead) > 0 {
		err = s.Records.RemoveHeartbeats(ctx, dead...)
	}
	attrs := []slog.Attr{slog.Int("shard", s.Records.Number), slog.Int("workers", len(dead)), slog.Int("jobs", n)}
	switch {
	case err != nil:
		s.repeats.Write(ctx, s.RedisLog, slog.LevelWarn, "some claimed jobs of dead workers are not back on the queue yet", nil, append(attrs, slog.Any("error", err))...)
	case n > 0:
		s.Log.LogAttrs(ctx, slog.LevelWarn, "workers are dead; their claimed jobs are back on the queue", attrs...)
	}
}
