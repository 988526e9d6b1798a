package throttle

import (
	"context"
	"math"
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
	used  atomic.Int64 // when it was asked last, in µs of the process's clock
}

// laneCount is how many pipelines to one node may be under way at once.
const laneCount = 2

// forgetNode is after how long a node that nobody asks is forgotten: it may have
// left the Cluster.
const forgetNode = time.Minute

// node answers the node that holds the key.
func (l *Redis) node(ctx context.Context, key string) (*node, error) {
	client, err := l.server(ctx, key)
	if err != nil {
		return nil, err
	}
	now := l.elapsed()
	switch n, closed := l.met(client, now); {
	case closed:
		return nil, errClosed
	case n != nil:
		return n, nil
	}
	return l.meet(ctx, client, now)
}

// server answers the client of the server that holds the key.
func (l *Redis) server(ctx context.Context, key string) (*redis.Client, error) {
	switch c := l.client.(type) {
	case *pipeline.Client:
		return c.Client, nil
	case *redis.ClusterClient:
		return c.MasterForKey(ctx, key)
	default:
		return c.(*redis.Client), nil
	}
}

// met answers the node that was met before, or nil.
func (l *Redis) met(client *redis.Client, now int64) (n *node, closed bool) {
	l.mu.RLock()
	n, closed = l.nodes[client], l.closed
	l.mu.RUnlock()
	if closed || n == nil {
		return nil, closed
	}
	n.used.Store(now)
	if swept := l.swept.Load(); now-swept > forgetNode.Microseconds() && l.swept.CompareAndSwap(swept, now) {
		l.forgetNodes(now - forgetNode.Microseconds())
	}
	return n, false
}

// clockOf answers the clock of the server that holds the key, or nil: a claim has to
// have met it.
func (l *Redis) clockOf(ctx context.Context, key string) *clock {
	client, err := l.server(ctx, key)
	if err != nil {
		return nil
	}
	if n, _ := l.met(client, l.elapsed()); n != nil {
		return n.clock
	}
	return nil
}

// meet takes in a node. Its claims are stamped by a clock that has to be known.
func (l *Redis) meet(ctx context.Context, client *redis.Client, now int64) (*node, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	fresh := &node{clock: newClock(l.process.now)}
	sent := fresh.clock.elapsed()
	t, err := client.Time(ctx).Result()
	if err != nil {
		return nil, err
	}
	fresh.clock.observe(sent, t.UnixMicro(), 0)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	if known := l.nodes[client]; known != nil {
		return known, nil
	}
	fresh.used.Store(now)
	if fresh.Pipeline = pipeline.Of(l.client); fresh.Pipeline == nil {
		fresh.Pipeline = pipeline.New(client, pipeline.Options{Lanes: laneCount, Timeout: l.timeout / 2})
	}
	l.nodes[client] = fresh
	return fresh, nil
}

// forgetNodes drops those that nobody has asked since the instant.
func (l *Redis) forgetNodes(since int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	for client, n := range l.nodes {
		if n.used.Load() < since {
			delete(l.nodes, client)
			l.ending.Go(func() { l.end(n) }) // what is under way may take until its time-out
		}
	}
}

// end ends the node's pipeline, unless it is the client's.
func (l *Redis) end(n *node) {
	if pipeline.Of(l.client) != n.Pipeline {
		n.Close()
	}
}

// Node names the master of a Cluster that keeps the
// request's user, and is "" where there is one server.
func (l *Redis) Node(ctx context.Context, r Request) string {
	cluster, ok := l.client.(*redis.ClusterClient)
	if !ok {
		return ""
	}
	master, err := cluster.MasterForKey(ctx, l.user(&r).keys.sent)
	if err != nil {
		return ""
	}
	return master.Options().Addr
}

// ClockOffset answers how far Redis's clock is ahead of this machine's, as
// learned on the way, of a Cluster's nodes that of the one which is furthest
// off; 0 before the first admission.
func (l *Redis) ClockOffset() time.Duration {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var furthest int64
	for _, n := range l.nodes {
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

	mu        sync.Mutex
	known     bool
	offset    float64 // µs: the server's instant less elapsed at sending, smoothed
	slope     float64 // µs: how much later it is behind sharing commands, smoothed
	deviation float64 // µs
	wall      atomic.Int64
	seen      atomic.Int64 // the server's instant that was observed last, µs

	// how far the server's clock is ahead of elapsed at least, in µs, by the answers
	// since then, and by those of the time before
	lead, led, since int64
}

// A process is this process's clock, of which only the progress counts.
type process struct {
	start time.Time
	now   func() time.Time // tests set it
}

// elapsed answers the µs since the start.
func (p process) elapsed() int64 { return p.now().Sub(p.start).Microseconds() }

func newClock(now func() time.Time) *clock {
	return &clock{process: process{now(), now}, lead: none, led: none}
}

// sharing is how many commands share a pipeline, about, when there are many.
const sharing = 512

// predict returns the server's instant at which a command that is sent at that
// elapsed time, behind so many others, is executed, rather a little late than early.
func (c *clock) predict(elapsed int64, before int) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return elapsed + int64(c.offset+c.slope*float64(before)/sharing+c.deviation)
}

// leadKept is for how long, in µs, and for as long again, an answer tells how far the
// server's clock is ahead: the two drift apart.
const leadKept = 500_000

// passed returns how long ago, in µs, it surely was now on the server's clock, after the
// answer to a command that was sent at that elapsed time. An answer that came faster
// lately tells, by the rule that synchronises clocks over a network: F. Cristian,
// Probabilistic clock synchronization, 1989.
func (c *clock) passed(sent, now int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	received := c.elapsed()
	return c.answered(sent, received, now) - (now - received)
}

// answered takes in what an answer tells of how far the server's clock is ahead of
// elapsed: by no less than now was when it was received, and by no more than when it was
// asked for. It returns how far that is at least.
func (c *clock) answered(sent, received, now int64) int64 {
	lead, age := now-received, received-c.since
	switch {
	case max(c.lead, c.led) > now-sent, age > 2*leadKept: // it was set back, or long ago
		c.lead, c.led, c.since = lead, lead, received
	case age > leadKept:
		c.lead, c.led, c.since = lead, c.lead, received
	default:
		c.lead = max(c.lead, lead)
	}
	return max(c.lead, c.led)
}

// observe takes in that a command sent at that elapsed time, behind so many others,
// was executed at the server's instant now. It learns by least mean squares.
func (c *clock) observe(elapsed, now int64, before int) {
	const gain = 1.0 / 16
	c.wall.Store(now - c.now().UnixMicro())
	c.seen.Store(now)
	position := float64(before) / sharing
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered(elapsed, c.elapsed(), now)
	sample := float64(now-elapsed) - c.slope*position
	miss := sample - c.offset
	off := math.Abs(miss)
	if !c.known || off > 2*stampLate {
		c.known, c.offset, c.deviation = true, sample, 100 // first seen, or stepped
		return
	}
	c.deviation += gain * (min(off, stampLate) - c.deviation)
	c.offset += gain * miss
	c.slope = max(0, c.slope+gain*position*miss)
}
