package queue

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/pushpace/pushpace/internal/base/shard"
)

// A stray is a job that names this worker and is not in its hands: the answer to its pull was
// lost, or a failover has undone its end. Its lease alone would bring it back after one to two
// minutes. So after trouble with the shard's Redis the worker looks at what names it, between
// two pulls, and puts the strays back on the queue.
type strays struct {
	mu     sync.Mutex
	inHand map[string]inHand // by ID: from its pull until it ended, or is put back
	pruned time.Time
	doubt  time.Time // of the last trouble; zero when the strays since then are put back
}

// inHand is how often a job is in hand, and when it was pulled last. asynq never says of one
// whose lease was over that it is done: it is forgotten after forgetAfter.
type inHand struct {
	n  int
	at time.Time
}

// calm is for how long there has been no trouble before strays are looked for: a pull that was
// given up may still be done.
const calm = time.Second

// hold has the jobs in hand.
func (s *strays) hold(jobs []pulled) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.pruned) > forgetAfter {
		s.pruned = now
		maps.DeleteFunc(s.inHand, func(_ string, h inHand) bool { return now.Sub(h.at) > forgetAfter })
	}
	for _, job := range jobs {
		s.inHand[job.ID] = inHand{s.inHand[job.ID].n + 1, now}
	}
}

// drop has the job no longer in hand.
func (s *strays) drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.inHand[id]; h.n > 1 {
		s.inHand[id] = inHand{h.n - 1, h.at}
	} else {
		delete(s.inHand, id)
	}
}

// holds reports whether the job is in hand.
func (s *strays) holds(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, held := s.inHand[id]
	return held && time.Since(h.at) <= forgetAfter
}

// suspect has strays be looked for, unless there is no error.
func (s *strays) suspect(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubt = time.Now()
}

// due reports whether strays are to be looked for now.
func (s *strays) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.doubt.IsZero() && time.Since(s.doubt) >= calm
}

// settle has no strays be looked for any more.
func (s *strays) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubt = time.Time{}
}

// reclaim puts the strays at the head of their queues. It runs where nothing is being pulled:
// what names this worker by then is in hand, or has strayed.
func (c *client) reclaim() {
	ctx, cancel := context.WithTimeout(c.ending, buryTimeout)
	defer cancel()
	n := 0
	var err error
	for queue := range shard.Queues() {
		jobs, failed := c.orphans(ctx, queue, []string{c.life.term.Load().id})
		astray := jobs[:0]
		for _, job := range jobs {
			if !c.strays.holds(job.id) { // looked at later than in Redis: what has ended since is not found there
				astray = append(astray, job)
			}
		}
		some := 0
		if failed == nil {
			some, failed = c.handBack(ctx, queue, astray)
		}
		n, err = n+some, errors.Join(err, failed)
	}
	if c.strays.settle(); err != nil {
		c.strays.suspect(err)
	}
	if n > 0 {
		c.config.Log.LogAttrs(ctx, slog.LevelInfo, "jobs that Redis counted as in this worker's hands, and were not, are back on the queue",
			slog.Int("shard", c.shard.Number), slog.Int("jobs", n))
	}
}
