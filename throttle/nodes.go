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

// A node is a server with timelines: the only one, or a master of a Cluster. Each has its own
// clock.
type node struct {
	*pipeline.Pipeline
	clock *clock
}

// laneCount is the number of concurrent pipelines to one node. With two, one batch fills while
// the other is in flight; more would make the batches smaller.
const laneCount = 2

// node returns the node that holds the key.
func (l *Redis) node(ctx context.Context, key string) (*node, error) {
	p, err := pipeline.For(ctx, l.shared, key)
	if err != nil {
		return nil, err
	}
	switch n, closed := l.knownNode(p); {
	case closed:
		return nil, errClosed
	case n != nil:
		return n, nil
	}
	return l.addNode(ctx, p)
}

// knownNode returns a known node, or nil.
func (l *Redis) knownNode(p *pipeline.Pipeline) (n *node, closed bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.nodes[p], l.closed
}

// clockOf returns the clock of the server that holds the key; nil before the first claim on that
// server.
func (l *Redis) clockOf(ctx context.Context, key string) *clock {
	p, err := pipeline.For(ctx, l.shared, key)
	if err != nil {
		return nil
	}
	if n, _ := l.knownNode(p); n != nil {
		return n.clock
	}
	return nil
}

// addNode adds a node after it has read the node's clock, which claims need for their scores.
func (l *Redis) addNode(ctx context.Context, p *pipeline.Pipeline) (*node, error) {
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

// Node returns the address of the Cluster master that holds the request's user; "" for a single
// server.
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

// ClockOffset returns how far Redis's clock is ahead of this machine's clock; negative if it is
// behind. The offset is the smallest one that the last reply proves. In a Cluster, ClockOffset
// returns the largest offset of a node, in either direction. Before the first admission it returns 0.
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

// A clock predicts the clock of a Redis server from this process's monotonic clock, so that steps
// of the machine's time have no effect. Its estimate includes the network latency: it predicts
// when a command sent now is executed.
type clock struct {
	process

	mu   sync.Mutex
	late float64      // µs from the earliest possible execution of a command to that of most commands
	wall atomic.Int64 // µs that the server's clock is ahead of this machine's
	seen atomic.Int64 // the last observed server time, µs

	recent, older ahead // bounds from the replies after since, and from those before
	since         int64 // elapsed time, µs
}

// ahead bounds how far the server's clock is ahead of elapsed, in µs: least is the server's time
// in a reply minus the time of its receipt, most the same minus the time its command was sent.
// F. Cristian, Probabilistic clock synchronization, 1989.
type ahead struct{ least, most int64 }

// and returns the intersection.
func (a ahead) and(b ahead) ahead { return ahead{max(a.least, b.least), min(a.most, b.most)} }

// A process is this process's clock. Only differences of its times count.
type process struct {
	start time.Time
	now   func() time.Time // tests set it
}

// elapsed returns the µs since the start.
func (p process) elapsed() int64 { return p.now().Sub(p.start).Microseconds() }

// boundsLife is how long, in µs, recent is collected; it is then used as older for another
// boundsLife. Bounds expire because clocks drift apart, and one stalled reply counts for at most
// a second.
const boundsLife = 500_000

func newClock(p process) *clock {
	return &clock{process: p, since: -3 * boundsLife} // in the past, so that the first reply replaces the bounds
}

// predict returns the server time at which a command sent at that elapsed time is executed. An
// error is rather late than early.
func (c *clock) predict(elapsed int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return elapsed + c.recent.and(c.older).most + int64(c.late)
}

// passed returns a lower bound, in µs, of the time since the server's clock was at now. The reply
// to a command sent at the elapsed time sent has just arrived; a faster recent reply makes the
// bound tighter.
func (c *clock) passed(sent, now int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	received := c.elapsed()
	return c.answered(sent, received, now).least - (now - received)
}

// answered adds a reply and returns the bounds of the server's clock.
func (c *clock) answered(sent, received, now int64) ahead {
	said, known, age := ahead{now - received, now - sent}, c.recent.and(c.older), received-c.since
	switch {
	case known.least > said.most, known.most < said.least, age > 2*boundsLife: // the clock was set, or the bounds are too old
		c.recent, c.older, c.since = said, said, received
	case age > boundsLife:
		c.recent, c.older, c.since = said, c.recent, received
	default:
		c.recent = c.recent.and(said)
	}
	return c.recent.and(c.older)
}

// provenOffset returns the proven offset of the server's clock in µs, negative if it is behind.
// least is the offset at the reply; way is the time of the round trip, with a wait for replicas.
func provenOffset(least, way int64) int64 {
	return max(least, min(0, least+way))
}

// observe adds a reply: a command sent at the elapsed time sent was executed at the server time
// now. It returns the elapsed time. A reply later than predicted moves the field late eight times
// as much as an earlier one. late is at most 8/10 of stampLate, so that a score is still accepted
// if its claim is executed at the earliest time.
func (c *clock) observe(sent, now int64) (received int64) {
	at := c.now()
	received = at.Sub(c.start).Microseconds()
	c.wall.Store(provenOffset(now-at.UnixMicro(), received-sent))
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
