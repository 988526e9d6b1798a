package throttle

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A clock predicts the clock of a Redis server from this process's monotonic one, so that a
// step of the machine's time changes nothing. What it learns includes the way
// to the server: the prediction is for when a command sent now is executed.
type clock struct {
	process

	mu        sync.Mutex
	known     bool
	offset    float64 // µs: the server's instant less elapsed at sending, smoothed
	deviation float64 // µs
	wall      atomic.Int64
	seen      atomic.Int64 // the server's instant that was observed last, µs
}

// A process is this process's clock, of which only the progress counts.
type process struct {
	start time.Time
	now   func() time.Time // tests set it
}

// elapsed answers the µs since the start.
func (p process) elapsed() int64 { return p.now().Sub(p.start).Microseconds() }

func newClock(now func() time.Time) *clock { return &clock{process: process{now(), now}} }

// learn asks the server for its time.
func (c *clock) learn(ctx context.Context, client redis.Cmdable) error {
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
	c.seen.Store(now)
	c.mu.Lock()
	defer c.mu.Unlock()
	if off := math.Abs(sample - c.offset); !c.known || off > 2*stampLate {
		c.known, c.offset, c.deviation = true, sample, 100 // first seen, or stepped
	} else {
		c.deviation += gain * (min(off, stampLate) - c.deviation)
		c.offset += gain * (sample - c.offset)
	}
}
