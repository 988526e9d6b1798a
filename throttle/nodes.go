package throttle

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
)

// A node is a server that holds timelines: the only one, or a master of a
// Cluster. Each has a clock of its own.
type node struct {
	*pipeline.Pipeline
	clock *clock
}

// laneCount is how many of the limiter's own pipelines to one node may be under way at once: with
// two, one batch fills while the other is on its way, and with more the batches are smaller.
const laneCount = 2

// node answers the node that holds the key.
func (l *Redis) node(ctx context.Context, key string) (*node, error) {
	p, err := pipeline.For(ctx, l.shared, key)
	if err != nil {
		return nil, err
	}
	switch n, closed := l.met(p); {
	case closed:
		return nil, errClosed
	case n != nil:
		return n, nil
	}
	return l.meet(ctx, p)
}

// met answers the node that was met before, or nil.
func (l *Redis) met(p *pipeline.Pipeline) (n *node, closed bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.nodes[p], l.closed
}

// clockOf answers the clock of the server that holds the key, or nil: a claim has to
// have met it.
func (l *Redis) clockOf(ctx context.Context, key string) *clock {
	p, err := pipeline.For(ctx, l.shared, key)
	if err != nil {
		return nil
	}
	if n, _ := l.met(p); n != nil {
		return n.clock
	}
	return nil
}

// meet takes in a node. Its claims are stamped by a clock that has to be known.
func (l *Redis) meet(ctx context.Context, p *pipeline.Pipeline) (*node, error) {
	fresh := &node{Pipeline: p, clock: newClock(l.process)}
	t := redis.NewTimeCmd(ctx, "time")
	sent := fresh.clock.elapsed()
	if err := p.Do(&pipeline.Group{Commands: []redis.Cmder{t}}); err != nil {
		return nil, err
	}
	if err := t.Err(); err != nil {
		return nil, err
	}
	fresh.clock.observe(sent, t.Val().UnixMicro())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	if known := l.nodes[p]; known != nil {
		return known, nil
	}
	maps.DeleteFunc(l.nodes, func(p *pipeline.Pipeline, _ *node) bool { return p.Closed() }) // it has left the Cluster
	l.nodes[p] = fresh
	return fresh, nil
}

// Node names the master of a Cluster that keeps the
// request's user, and is "" where there is one server.
func (l *Redis) Node(ctx context.Context, r Request) string {
	cluster, ok := pipeline.OfCluster(l.client)
	if !ok {
		return ""
	}
	master, err := cluster.MasterForKey(ctx, l.user(&r).keys.sent)
	if err != nil {
		return ""
	}
	return master.Options().Addr
}

// ClockOffset answers how far Redis's clock is ahead of this machine's, by no more than the
// last answer shows for sure, of a Cluster's nodes that of the one which is furthest
// off; 0 before the first admission.
func (l *Redis) ClockOffset() time.Duration {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var furthest int64
	for _, n := range l.nodes {
		if n.Closed() {
			continue
		}
		if off := n.clock.wall.Load(); max(off, -off) > max(furthest, -furthest) {
			furthest = off
		}
	}
	return time.Duration(furthest) * time.Microsecond
}

// A clock predicts the clock of a Redis server from this process's monotonic one, so that a
// step of the machine's time changes nothing. What it learns includes the way
// to the server: the prediction is for when a command sent now is executed.
type clock struct {
	process

	mu   sync.Mutex
	late float64      // µs: how much later than at the soonest most commands are executed
	wall atomic.Int64 // how far the server's clock is ahead of this machine's, in µs
	seen atomic.Int64 // the server's instant that was observed last, µs

	// what the answers since then say, and those of the time before
	recent, older ahead
	since         int64
}

// ahead is how far the server's clock is ahead of elapsed, in µs: by no less than what an
// answer said when it was received, and by no more than when it was asked for. F. Cristian,
// Probabilistic clock synchronization, 1989.
type ahead struct{ least, most int64 }

// and returns what both say.
func (a ahead) and(b ahead) ahead { return ahead{max(a.least, b.least), min(a.most, b.most)} }

// A process is this process's clock, of which only the progress counts.
type process struct {
	start time.Time
	now   func() time.Time // tests set it
}

// elapsed answers the µs since the start.
func (p process) elapsed() int64 { return p.now().Sub(p.start).Microseconds() }

// aheadKept is for how long, in µs, and for as long again, an answer shows how far the
// server's clock is ahead: the two drift apart, and one stalled answer counts for a second at most.
const aheadKept = 500_000

func newClock(p process) *clock {
	return &clock{process: p, since: -3 * aheadKept} // so long ago that the first answer is all
}

// predict returns the server's instant at which a command that is sent at that elapsed time
// is executed, rather a little late than early.
func (c *clock) predict(elapsed int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return elapsed + c.recent.and(c.older).most + int64(c.late)
}

// passed returns how long ago, in µs, it surely was now on the server's clock, after the
// answer to a command that was sent at that elapsed time. An answer that came faster
// lately tells.
func (c *clock) passed(sent, now int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	received := c.elapsed()
	return c.answered(sent, received, now).least - (now - received)
}

// answered takes in an answer, and returns how far the server's clock is ahead.
func (c *clock) answered(sent, received, now int64) ahead {
	said, known, age := ahead{now - received, now - sent}, c.recent.and(c.older), received-c.since
	switch {
	case known.least > said.most, known.most < said.least, age > 2*aheadKept: // it was set, or long ago
		c.recent, c.older, c.since = said, said, received
	case age > aheadKept:
		c.recent, c.older, c.since = said, c.recent, received
	default:
		c.recent = c.recent.and(said)
	}
	return c.recent.and(c.older)
}

// surelyOff is by how much the server's clock is ahead at least, or behind, in µs: least as of
// the answer, which was on its way or waited for replicas for so long.
func surelyOff(least, way int64) int64 {
	return max(least, min(0, least+way))
}

// observe takes in that a command sent at that elapsed time was executed at the server's
// instant now, and returns the elapsed time. One that was later than most counts for eight
// that were not. A stamp is aimed behind the soonest instant of its execution by at most eight
// tenths of stampLate: it still holds when the claim is executed at that instant.
func (c *clock) observe(sent, now int64) (received int64) {
	at := c.now()
	received = at.Sub(c.start).Microseconds()
	c.wall.Store(surelyOff(now-at.UnixMicro(), received-sent))
	c.seen.Store(now)
	c.mu.Lock()
	defer c.mu.Unlock()
	soonest := c.answered(sent, received, now).most
	if late := float64(min(now-sent-soonest, stampLate*8/10)); late > c.late {
		c.late += (late - c.late) / 8
	} else {
		c.late += (late - c.late) / 64
	}
	return received
}
