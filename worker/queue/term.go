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

// A worker that was killed leaves jobs in hand. Signs of life say whose they are, and nothing
// else does:
//
//   - A worker signs the shard's set of signs once a second for each of its terms. Redis's clock
//     says when, and every job that it pulls names the term.
//   - A term that has not been signed for twice sureFor is dead. Another worker writes that down,
//     which ends it for good, and puts the jobs that name it at the heads of their queues.
//   - A worker that was stopped, or cut off from Redis, cannot know whether it has been
//     taken for dead. From sureFor after its last sign on it begins no send until it has signed
//     again. If the term is dead it begins another, and drops what it has pulled before.
//   - No worker can sign while Redis is away, and none is dead for that. A worker that had
//     no answer for sureFor first signs for as long again, as the others do meanwhile, and
//     then judges them.
//   - A job may name a term and be in nobody's hands: the answer to its pull was lost, or a
//     failover has undone its end. So after trouble with the shard's Redis a worker pulls in a
//     new term, and signs the old one until what it knows to be in hand of it is out: then the
//     old term dies, and what is left of it comes back.
//   - Once a minute who may judge looks for jobs that name no term which signs.
//   - What one worker is enough for is done by the one that leads: its term is the first, by name,
//     of those that sign. Another one leads when it is dead and the next sign is left. Who
//     drains leads on until it signs off. A term that has just begun may lead beside another one
//     for a second.
//
// The set lies with the queues, so that on a Cluster no other node is asked for its sake.

const (
	// signEvery is the interval between two signs: three in a row may be lost before a worker sends
	// nothing more.
	signEvery = time.Second
	// A worker whose last sign is older than sureFor sends nothing more, and is dead after as long
	// again, so that what it has begun is over then. That, a sign and a look that fails are within the
	// 15 s that a killed worker may delay a line.
	sureFor = 4 * time.Second
	// reapEvery is how often a worker looks for jobs of terms that nobody signs. Only a lost answer
	// or a failover leaves such a job, and the look reads all jobs in hand.
	reapEvery = time.Minute
)

// A Term is the time in which a worker signs with an ID: what it pulls in a term is its own
// until the term is over.
type Term struct {
	id     string
	signed bool         // at least once; its keeper's alone
	held   atomic.Int64 // jobs in hand, and pulls under way
	visits atomic.Int64 // pulls

	mu    sync.Mutex
	until time.Time     // when it stops being certain that it goes on
	over  bool          // it was taken for dead
	ended bool          // this process has given back what it had
	news  chan struct{} // is closed when either changes
}

func newTerm() *Term { return &Term{id: rand.Text()[:8], news: make(chan struct{})} }

// visit is the number of the next pull.
func (t *Term) visit() int64 { return t.visits.Add(1) }

// free has one fewer in hand.
func (t *Term) free() { t.held.Add(-1) }

// Sure reports whether it is certain that the term goes on.
func (t *Term) Sure() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Now().Before(t.until)
}

// Lost reports whether the term is over, so that another worker may have what was pulled
// in it. While that is not certain it waits for the next sign; it is true when ctx ends
// before.
func (t *Term) Lost(ctx context.Context) bool {
	for {
		t.mu.Lock()
		over, until, news := t.over, t.until, t.news
		t.mu.Unlock()
		if over || time.Now().Before(until) {
			return over
		}
		select {
		case <-news:
		case <-ctx.Done():
			return true
		}
	}
}

// end has nothing be sent in the term from now on.
func (t *Term) end() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.note(time.Time{}, true)
}

// note notes what a sign has told.
func (t *Term) note(until time.Time, over bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.until, t.over = until, over || t.ended; t.ended {
		t.until = time.Time{}
	}
	close(t.news)
	t.news = make(chan struct{})
}

// A life is a worker's in one shard.
type life struct {
	every, sureFor time.Duration
	perSign        time.Duration        // bounds one sign, so that there is time for another
	term           atomic.Pointer[Term] // in which it pulls
	before         []*Term              // of which something is in hand; its keeper's alone
	leader         atomic.Pointer[Term] // that leads by its last sign; nil for none
	// last is when the last sign was sent that was answered, and since the first of those
	// that have followed each other in time.
	last, since time.Time
	reaping     atomic.Bool
	reaped      time.Time // when it has looked last

	mu    sync.Mutex
	doubt time.Time // of the last trouble; zero where the term has begun since
}

func newLife() *life {
	l := &life{every: signEvery, sureFor: sureFor, perSign: sureFor / 2}
	l.term.Store(newTerm())
	return l
}

// hold returns the term in which is pulled, with one more in hand.
func (l *life) hold() *Term {
	for {
		term := l.term.Load()
		term.held.Add(1)
		if term == l.term.Load() {
			return term
		}
		term.free()
	}
}

// suspect notes that jobs may name this worker that it does not know of.
func (l *life) suspect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.doubt.IsZero() {
		l.doubt = time.Now()
	}
}

// begin begins another term, which has been signed: nothing is pulled in one that has not.
func (l *life) begin(next *Term) (before *Term) {
	l.mu.Lock()
	l.doubt = time.Time{}
	l.mu.Unlock()
	return l.term.Swap(next)
}

// leads notes whether a term leads.
func (l *life) leads(t *Term, leads bool) {
	if leads {
		l.leader.Store(t)
	} else {
		l.leader.CompareAndSwap(t, nil)
	}
}

// Leads reports whether this worker is the one that does for the shard what one is enough for.
func (s *Server) Leads() bool {
	t := s.life.leader.Load()
	return t != nil && t.Sure()
}

// doubts reports whether it is time for another term: not at once, as a pull that was given up may
// still be done.
func (l *life) doubts() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.doubt.IsZero() && time.Since(l.doubt) >= l.every
}

// doubted reports whether there was trouble since the term began.
func (l *life) doubted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.doubt.IsZero()
}

// sign leaves the worker's signs of life from now on. The first ones come before anything
// is pulled, unless Redis does not answer.
func (s *Server) sign() {
	ctx, cancel := context.WithCancelCause(context.Background())
	s.signOff = cancel
	var first sync.WaitGroup
	first.Add(1)
	s.signing.Go(func() { s.keep(ctx, first.Done) })
	first.Wait()
}

// keep signs until ctx ends, and then signs off, unless ctx ends for errLeft. It calls
// begun after the first attempt.
func (s *Server) keep(ctx context.Context, begun func()) {
	begun = sync.OnceFunc(begun)
	var side sync.WaitGroup
	defer side.Wait()
	unsure := clock.Trouble{
		Log:    s.RedisLog.With("shard", s.Records.Number),
		Begins: "nothing of a shard is sent: this worker cannot leave its sign of life, and others may take it for dead",
		Ends:   "the worker's sign of life is left again",
	}
	clock.Every(ctx, s.life.every, func() {
		dead, reaps, err := s.signAll(ctx)
		begun()
		var why []slog.Attr
		if err != nil {
			why = append(why, slog.Any("error", err))
		}
		unsure.Note(ctx, err != nil && !s.life.term.Load().Sure(), why...)
		if reaps && s.life.reaping.CompareAndSwap(false, true) {
			side.Go(func() {
				defer s.life.reaping.Store(false)
				s.reap(ctx, dead)
			})
		}
	})
	if context.Cause(ctx) == errLeft || time.Since(s.life.last) > s.life.sureFor { // Redis does not answer
		return
	}
	last, cancel := context.WithTimeout(context.Background(), s.life.perSign)
	defer cancel()
	_ = s.Records.SignOff(last, s.life.term.Load().id) // else it is dead in a while, as those before it are
}

// signAll signs for the terms. It returns others that are dead, and whether there may be jobs of
// such.
func (s *Server) signAll(ctx context.Context) (dead []string, reaps bool, err error) {
	l, now := s.life, time.Now()
	if now.Sub(l.last) > l.sureFor {
		l.since = now
	}
	judges := now.Sub(l.since) >= l.sureFor
	dead, err = s.signFor(ctx, l.term.Load(), judges)
	if errors.Is(err, store.ErrDead) {
		s.RedisLog.LogAttrs(ctx, slog.LevelWarn, "this worker was taken for dead: others have what it had in hand",
			slog.Int("shard", s.Records.Number), slog.Duration("unseen", now.Sub(l.last)))
		dead, err = s.renew(ctx, false)
	} else if err == nil && l.doubts() {
		_, err = s.renew(ctx, true)
	}
	l.before = slices.DeleteFunc(l.before, func(t *Term) bool { return t.gone() })
	for _, t := range l.before {
		_, _ = s.signFor(ctx, t, false)
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

// renew has another term, once it is signed, and keeps the one before for what is in hand of it.
func (s *Server) renew(ctx context.Context, keep bool) (dead []string, err error) {
	next := newTerm()
	if dead, err = s.signFor(ctx, next, false); err == nil {
		if before := s.life.begin(next); keep {
			s.life.before = append(s.life.before, before)
		}
	}
	return dead, err
}

// gone reports whether the term is to die: nothing is in hand of it, or it is dead.
func (t *Term) gone() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over || t.held.Load() == 0
}

// signFor signs for a term.
func (s *Server) signFor(ctx context.Context, t *Term, judges bool) (dead []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.life.perSign)
	defer cancel()
	now := time.Now() // before it is sent: Redis's instant is later
	dead, leads, err := s.Records.Sign(ctx, store.Sign{Term: t.id, First: !t.signed, Dead: 2 * s.life.sureFor, Judges: judges})
	switch {
	case errors.Is(err, store.ErrDead):
		t.note(time.Time{}, true)
	case err == nil:
		t.signed = true
		t.note(now.Add(s.life.sureFor), false)
		s.life.leads(t, leads)
	}
	return dead, err
}

// reap puts back what is in the hands of nobody who signs, and forgets terms that are dead. Until
// it has they are found again with the next sign; several workers may do it at once.
func (s *Server) reap(ctx context.Context, dead []string) {
	n, err := s.Records.Reap(ctx)
	if err == nil && len(dead) > 0 {
		err = s.Records.SignOff(ctx, dead...)
	}
	attrs := []slog.Attr{slog.Int("shard", s.Records.Number), slog.Int("workers", len(dead)), slog.Int("jobs", n)}
	switch {
	case err != nil:
		s.repeats.Tell(ctx, s.RedisLog, slog.LevelWarn, "what dead workers had in hand is not all back on the queue yet", nil, append(attrs, slog.Any("error", err))...)
	case n > 0:
		s.Log.LogAttrs(ctx, slog.LevelWarn, "workers are dead: what they had in hand is back on the queue", attrs...)
	}
}
