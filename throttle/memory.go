package throttle

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/embedded"
)

// Memory is the limiter of one process, for tests and small programs: a Redis limiter on a
// Redis inside the process, which keeps nothing when it ends.
type Memory struct {
	limiter *Redis
	client  *redis.Client
	server  *embedded.Redis
	now     func() time.Time // nil for that of the process
	end     sync.Once
	err     error // of its end
}

// NewMemory returns a limiter without any history, which Close ends. What Options.Now says is
// its Redis's clock too, and decides. Options.Timeout is ten seconds by default: no network
// is there to be slow.
func NewMemory(o Options) (*Memory, error) {
	server, err := embedded.Start()
	if err != nil {
		return nil, err
	}
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	m := &Memory{client: redis.NewClient(server.Options()), server: server, now: o.Now}
	if m.limiter, err = New(m.client, o); err != nil {
		_ = m.client.Close()
		server.Close()
		return nil, err
	}
	return m, nil
}

// Close waits for the calls under way, and ends the limiter and its Redis.
func (m *Memory) Close() error {
	m.end.Do(func() {
		m.err = errors.Join(m.limiter.Close(), m.client.Close())
		m.server.Close()
	})
	return m.err
}

// redis returns the limiter, with its Redis's clock set.
func (m *Memory) redis() *Redis {
	if m.now != nil {
		m.server.SetTime(m.now)
	}
	return m.limiter
}

// Acquire implements Limiter.
func (m *Memory) Acquire(ctx context.Context, r Request) (Decision, error) {
	return m.redis().Acquire(ctx, r)
}

// AcquireAll implements Planner.
func (m *Memory) AcquireAll(ctx context.Context, all []Request) ([]Decision, error) {
	return m.redis().AcquireAll(ctx, all)
}

// Cancel implements Limiter.
func (m *Memory) Cancel(ctx context.Context, r Request) (Placed, error) {
	return m.redis().Cancel(ctx, r)
}

// CancelAll implements Planner.
func (m *Memory) CancelAll(ctx context.Context, all []Request) (Placed, error) {
	return m.redis().CancelAll(ctx, all)
}

// Replan implements Planner.
func (m *Memory) Replan(ctx context.Context, all []Request) (Placed, error) {
	return m.redis().Replan(ctx, all)
}

// Told implements Planner.
func (m *Memory) Told(ctx context.Context, r Request, woken []Booking) error {
	return m.redis().Told(ctx, r, woken)
}

// Timeline implements Planner.
func (m *Memory) Timeline(ctx context.Context, r Request) (Timeline, error) {
	return m.redis().Timeline(ctx, r)
}
