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

// Memory is a Redis limiter on a Redis server inside the process, for tests and small programs.
// Nothing outlives the process.
type Memory struct {
	limiter *Redis
	client  *redis.Client
	server  *embedded.Redis
	now     func() time.Time // nil for the process's clock
	end     sync.Once
	err     error // the result of Close
}

// NewMemory returns an empty limiter; Close ends it. Options.Now also sets the clock of its
// Redis. The default Options.Timeout is ten seconds, as there is no network to be slow.
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

// Close waits for the running calls and stops the limiter and its Redis.
func (m *Memory) Close() error {
	m.end.Do(func() {
		m.err = errors.Join(m.limiter.Close(), m.client.Close())
		m.server.Close()
	})
	return m.err
}

// redis returns the limiter after it sets the clock of its Redis.
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
func (m *Memory) Cancel(ctx context.Context, r Request) (FollowUp, error) {
	return m.redis().Cancel(ctx, r)
}

// CancelAll implements Planner.
func (m *Memory) CancelAll(ctx context.Context, all []Request) (FollowUp, error) {
	return m.redis().CancelAll(ctx, all)
}

// Replan implements Planner.
func (m *Memory) Replan(ctx context.Context, all []Request) (FollowUp, error) {
	return m.redis().Replan(ctx, all)
}

// ClearEarly implements Planner.
func (m *Memory) ClearEarly(ctx context.Context, r Request, woken []Booking) error {
	return m.redis().ClearEarly(ctx, r, woken)
}

// Timeline implements Planner.
func (m *Memory) Timeline(ctx context.Context, r Request) (Timeline, error) {
	return m.redis().Timeline(ctx, r)
}
