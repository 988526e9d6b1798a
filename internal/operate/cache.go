package operate

import (
	"context"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
)

// times are for how long a shared value is fresh, and how long reading it may take: zero
// for as long as it takes.
type times struct{ fresh, within time.Duration }

// A shared value is read once for all who ask for it meanwhile, and kept while it is fresh.
// Where fresh is zero, each asker reads it. An error is not kept.
type shared[T any] struct {
	times
	read func(context.Context) (T, error)

	reads   singleflight.Group
	mu      sync.Mutex
	at      time.Time // when it was read, all of it
	value   T
	changes int // how often it was forgotten
}

// get returns the value, at most as old as fresh says.
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
		ctx := context.WithoutCancel(ctx) // for the others, whoever began it
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

// last returns the value that was read last, however old; the zero value for none.
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

// keep keeps the value, unless it was forgotten while it was read.
func (s *shared[T]) keep(value T, changes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes == changes {
		s.value, s.at = value, time.Now()
	}
}

// forget has the next asker read the value again: this process has changed it. A read under
// way may have begun before that.
func (s *shared[T]) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Time{}
	s.changes++
	s.reads.Forget("")
}

// mostShared is how many of the values of a sharedBy are kept.
const mostShared = 16

// A sharedBy has a shared value for each key that is asked for, of the last few.
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

// forget has the next asker of one of these keys read its value again.
func (s *sharedBy[K, T]) forget(these func(K) bool) {
	for _, key := range s.recent.Keys() {
		if one, known := s.recent.Peek(key); known && these(key) {
			one.forget()
		}
	}
}
