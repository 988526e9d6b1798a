package console

import (
	"context"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// fresh is for how long what was read is shown to others: however many pages are
// open, Redis is asked once. It is a little less than the script's time between two
// looks, so that many pages, each at its own instant, ask no more often than one.
const fresh = 1800 * time.Millisecond

// A shared value is read for all who look at it. The zero value needs read, which may
// take so long.
type shared[T any] struct {
	read   func(context.Context) (T, error)
	within time.Duration

	mu    sync.Mutex
	at    time.Time
	value T
	err   error
}

// get returns the value, at most as old as fresh says. Who comes while it is read gets what
// is read.
func (s *shared[T]) get(ctx context.Context) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) < fresh {
		return s.value, s.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.within) // for the others, whoever began it
	defer cancel()
	s.value, s.err = s.read(ctx)
	s.at = time.Now()
	return s.value, s.err
}

// mostShared is how many of the values of a sharedBy are kept.
const mostShared = 16

// A sharedBy has a shared value for each key that is asked for, of the last few.
type sharedBy[K comparable, T any] struct {
	read   func(context.Context, K) (T, error)
	within time.Duration
	recent *lru.Cache[K, *shared[T]]
}

func newSharedBy[K comparable, T any](read func(context.Context, K) (T, error), within time.Duration) *sharedBy[K, T] {
	recent, err := lru.New[K, *shared[T]](mostShared)
	if err != nil {
		panic(err)
	}
	return &sharedBy[K, T]{read, within, recent}
}

func (s *sharedBy[K, T]) get(ctx context.Context, key K) (T, error) {
	one, known := s.recent.Get(key)
	if !known {
		one = &shared[T]{read: func(ctx context.Context) (T, error) { return s.read(ctx, key) }, within: s.within}
		if first, there, _ := s.recent.PeekOrAdd(key, one); there {
			one = first
		}
	}
	return one.get(ctx)
}

// forget has it read again by who comes next: this process has changed it.
func (s *shared[T]) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Time{}
}

// forget has the key's value read again by who comes next.
func (s *sharedBy[K, T]) forget(key K) {
	if one, known := s.recent.Peek(key); known {
		one.forget()
	}
}
