package queue

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/redisreply"
)

// refusals tracks whether Redis refuses writes: it is out of memory, its disk is full, or it is a
// replica. Meanwhile nothing is pulled or sent, since the result could not be recorded and the
// notification would be sent again.
type refusals struct {
	log        *slog.Logger
	active     atomic.Bool
	unrecorded atomic.Int64 // unrecorded ends that are being retried

	mu     sync.Mutex
	pulls  map[string]bool // by queue: the last pull was refused
	gaveUp bool            // the retries of an end were given up, and nothing was written since
	logged bool
}

// blocks reports whether jobs of that queue must not be sent now.
func (r *refusals) blocks(queue string) bool {
	if !r.active.Load() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recording() || r.gaveUp || r.pulls[queue]
}

// recording reports whether ends wait to be recorded, so that nothing is pulled.
func (r *refusals) recording() bool { return r.unrecorded.Load() > 0 }

// pulled is called with the result of each pull. A pull begins with a write, so a reply to it
// shows whether Redis accepts writes. An error without a reply of Redis shows nothing, and is
// ignored.
func (r *refusals) pulled(queue string, err error) {
	if err == nil && !r.active.Load() || err != nil && !errors.As(err, new(redis.Error)) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pulls == nil {
		r.pulls = make(map[string]bool)
	}
	r.pulls[queue] = redisreply.RefusesWrites(err)
	r.gaveUp = r.gaveUp && err != nil
	r.logChange(err)
}

// ended adds n to the unrecorded ends. A negative n means that ends were recorded or, with an error, that
// their retries were given up.
func (r *refusals) ended(n int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unrecorded.Add(n)
	r.gaveUp = err != nil && (n < 0 || r.gaveUp)
	r.logChange(err)
}

// logChange logs the beginning and the end of refused writes.
func (r *refusals) logChange(err error) {
	now := r.recording() || r.gaveUp
	for _, refused := range r.pulls {
		now = now || refused
	}
	r.active.Store(now)
	ctx := context.Background()
	switch {
	case now && !r.logged:
		r.logged = true
		r.log.LogAttrs(ctx, slog.LevelError, "Redis refuses to write: nothing is sent until Redis accepts writes, since sends could not be recorded",
			slog.Any("error", err))
	case !now && r.logged:
		r.logged = false
		r.log.LogAttrs(ctx, slog.LevelInfo, "Redis writes again: sending continues")
	}
}

// persist retries a failed write for at most limit: see Server.Persist.
func (r *refusals) persist(ctx context.Context, limit time.Duration, write func() error) error {
	err := write()
	if err == nil {
		return nil
	}
	counted := false
	count := func() {
		if !counted && redisreply.RefusesWrites(err) {
			counted = true
			r.ended(1, err)
		}
	}
	count()
	defer func() {
		if counted {
			r.ended(-1, err)
		}
	}()
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = 50*time.Millisecond, time.Second
	_, err = backoff.Retry(ctx, func() (struct{}, error) {
		err = write()
		count()
		return struct{}{}, err
	}, backoff.WithBackOff(b), backoff.WithMaxElapsedTime(limit))
	return err
}
