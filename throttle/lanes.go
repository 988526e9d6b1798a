package throttle

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// laneCount is how many pipelines to one node may be under way at once.
	laneCount = 2
	// laneBatch bounds the claims that share a pipeline.
	laneBatch = 64
)

// lanes send claims to one Redis node. Claims that are made while every lane
// is under way share the next pipeline: a lone claim leaves at once, and the
// more there are, the fewer system calls each costs.
type lanes struct {
	client  *redis.Client
	timeout time.Duration
	clock   *clock
	queue   chan *claim
	recycle func(*claim)
	wg      sync.WaitGroup
}

func newLanes(client *redis.Client, timeout time.Duration, clock *clock, recycle func(*claim)) *lanes {
	l := &lanes{client: client, timeout: timeout, clock: clock, recycle: recycle,
		queue: make(chan *claim, 1024)}
	for range laneCount {
		l.wg.Go(l.run)
	}
	return l
}

// close waits for what is under way. No claim may be queued afterwards.
func (l *lanes) close() {
	close(l.queue)
	l.wg.Wait()
}

func (l *lanes) run() {
	batch := make([]*claim, 0, laneBatch)
	for first := range l.queue {
		batch = append(batch[:0], first)
	gather:
		for len(batch) < cap(batch) {
			select {
			case c, ok := <-l.queue:
				if !ok {
					break gather
				}
				batch = append(batch, c)
			default:
				break gather
			}
		}
		l.send(batch)
		for _, c := range batch {
			if c.state.CompareAndSwap(claimPending, claimDone) {
				c.done <- struct{}{}
			} else {
				l.recycle(c)
			}
		}
	}
}

// send runs the batch as one pipeline, and leaves each claim with its reply or
// with an error.
func (l *lanes) send(batch []*claim) {
	ctx, cancel := context.WithTimeout(context.Background(), l.timeout)
	defer cancel()
	if err := l.clock.learn(ctx, l.client); err != nil {
		for _, c := range batch {
			c.err = err
		}
		return
	}
	pipe := l.client.Pipeline()
	sent := l.clock.elapsed()
	stamp := l.clock.predict(sent)
	for _, c := range batch {
		c.sent = sent
		c.build(stamp)
		for _, cmd := range c.commands {
			_ = pipe.Process(ctx, cmd)
		}
	}
	_, err := pipe.Exec(ctx)
	for _, c := range batch {
		// the last command's error says whether the replies are all there
		if c.err = c.commands[len(c.commands)-1].Err(); c.err == nil && len(c.reply) == 0 {
			c.err = err
		}
	}
}

// A clock predicts Redis's clock from this process's monotonic one, so that a
// step of the machine's time changes nothing. What it learns includes the way
// to the server: the prediction is for when a command sent now is executed.
type clock struct {
	start time.Time
	now   func() time.Time // the process's clock; tests set it

	mu        sync.Mutex
	known     bool
	offset    float64 // µs: the server's instant less elapsed at sending, smoothed
	deviation float64 // µs
	wall      atomic.Int64
}

func newClock(now func() time.Time) *clock { return &clock{start: now(), now: now} }

// elapsed answers the µs since the clock was made.
func (c *clock) elapsed() int64 { return c.now().Sub(c.start).Microseconds() }

// learn asks the server for its time, unless the clock is known.
func (c *clock) learn(ctx context.Context, client redis.Cmdable) error {
	c.mu.Lock()
	known := c.known
	c.mu.Unlock()
	if known {
		return nil
	}
	sent := c.elapsed()
	t, err := client.Time(ctx).Result()
	if err != nil {
		return err
	}
	c.observe(sent, t.UnixMicro())
	return nil
}

// predict answers the server's instant at which a command that is sent at that
// elapsed time is executed, rather a little late than early.
func (c *clock) predict(elapsed int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return elapsed + int64(c.offset+c.deviation)
}

// observe takes in that a command sent at that elapsed time was executed at
// the server's instant now.
func (c *clock) observe(elapsed, now int64) {
	const gain = 1.0 / 16
	sample := float64(now - elapsed)
	c.wall.Store(now - c.now().UnixMicro())
	c.mu.Lock()
	defer c.mu.Unlock()
	if off := math.Abs(sample - c.offset); !c.known || off > 2*stampLate {
		c.known, c.offset, c.deviation = true, sample, 100 // first seen, or stepped
	} else {
		c.deviation += gain * (min(off, stampLate) - c.deviation)
		c.offset += gain * (sample - c.offset)
	}
}
