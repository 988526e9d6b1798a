package operate

import (
	"context"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
)

// times are how long a shared value is fresh, and how long a read may take; a zero within means
// unbounded.
type times struct{ fresh, within time.Duration }

// A shared value is read once for all concurrent callers, and kept while it is fresh. If fresh is
// zero, each caller reads it. Errors are not kept.
type shared[T any] struct {
	times
	read func(context.Context) (T, error)

	reads   singleflight.Group
	mu      sync.Mutex
	at      time.Time // when the read ended
	value   T
	changes int // the number of calls of forget
}

// get returns the value, at most fresh old.
func (s *shared[T]) get(ctx context.Context) (value T, err error) {
	if s.fresh == 0 {
		return s.read(ctx)
	}
	if value, known, _ := s.known(); known {
		return value, nil
	}
	reading := s.reads.DoChan("", func() (any, error) {
		value, known, changes := s.known()
		if known {
			return value, nil
		}
		ctx := context.WithoutCancel(ctx) // the caller that began the read may leave before other callers
		if s.within > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, s.within)
			defer cancel()
		}
		value, err := safely(ctx, s.read)
		if err == nil {
			s.keep(value, changes)
		}
		return value, err
	})
	select {
	case done := <-reading:
		value, _ = done.Val.(T)
		return value, done.Err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// last returns the value that was read last, however old; the zero value before the first read.
func (s *shared[T]) last() T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value
}

func (s *shared[T]) known() (value T, known bool, changes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value, time.Since(s.at) < s.fresh, s.changes
}

// keep stores the value, unless forget was called during the read.
func (s *shared[T]) keep(value T, changes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes == changes {
		s.value, s.at = value, time.Now()
	}
}

// forget makes the next caller read the value again, because this process has changed it. The
// value of a read in flight is not kept: it may have begun before the change.
func (s *shared[T]) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Time{}
	s.changes++
	s.reads.Forget("")
}

// mostShared is the number of values that a sharedBy keeps.
const mostShared = 16

// A sharedBy has a shared value for each of the last mostShared keys.
type sharedBy[K comparable, T any] struct {
	times
	read   func(context.Context, K) (T, error)
	recent *lru.Cache[K, *shared[T]]
}

func newSharedBy[K comparable, T any](t times, read func(context.Context, K) (T, error)) *sharedBy[K, T] {
	recent, err := lru.New[K, *shared[T]](mostShared)
	if err != nil { // for a size below 1
		panic(err)
	}
	return &sharedBy[K, T]{t, read, recent}
}

func (s *sharedBy[K, T]) get(ctx context.Context, key K) (T, error) {
	one, known := s.recent.Get(key)
	if !known {
		one = &shared[T]{times: s.times, read: func(ctx context.Context) (T, error) { return s.read(ctx, key) }}
		if first, there, _ := s.recent.PeekOrAdd(key, one); there {
			one = first
		}
	}
	return one.get(ctx)
}

// forget makes the next caller of each of these keys read its value again.
func (s *sharedBy[K, T]) forget(these func(K) bool) {
	for _, key := range s.recent.Keys() {
		if one, known := s.recent.Peek(key); known && these(key) {
			one.forget()
		}
	}
}
