package console

import (
	"context"
	"sync"
	"time"
)

// fresh is for how long what was read is shown to others: however many pages are
// open, Redis is asked once.
const fresh = time.Second

// A shared value is read for all who look at it. The zero value needs read.
type shared[T any] struct {
	read func(context.Context) (T, error)

	mu    sync.Mutex
	at    time.Time
	value T
	err   error
}

// get returns the value, at most a second old. Who comes while it is read gets what
// is read.
func (s *shared[T]) get(ctx context.Context) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) < fresh {
		return s.value, s.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within) // for the others, whoever began it
	defer cancel()
	s.value, s.err = s.read(ctx)
	s.at = time.Now()
	return s.value, s.err
}
