package operate

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A value is read once for concurrent callers and while it is fresh, even if the first caller
// leaves. Errors are not kept.
func TestSharedValueIsReadOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("away")
		var reads atomic.Int64
		var failing atomic.Bool
		s := shared[int64]{times: times{fresh: time.Minute, within: time.Hour}, read: func(ctx context.Context) (int64, error) {
			time.Sleep(time.Second)
			if failing.Load() {
				return 0, away
			}
			return reads.Add(1), ctx.Err()
		}}
		leaving, leave := context.WithTimeout(t.Context(), time.Millisecond)
		defer leave()
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := s.get(leaving); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("who has left is told %v", err)
			}
		})
		for range 10 {
			all.Go(func() {
				if n, err := s.get(t.Context()); n != 1 || err != nil {
					t.Errorf("read %d times, %v", n, err)
				}
			})
		}
		all.Wait()
		time.Sleep(time.Minute)
		failing.Store(true)
		if _, err := s.get(t.Context()); err != away {
			t.Error(err)
		}
		failing.Store(false)
		if n, err := s.get(t.Context()); n != 2 || err != nil {
			t.Errorf("read %d times, %v", n, err)
		}
	})
}

// After a change the next caller gets the new value, even while the old value is being read.
func TestForgetDropsReadInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now atomic.Int64
		s := newSharedBy(times{fresh: time.Minute}, func(context.Context, string) (int64, error) {
			value := now.Load()
			time.Sleep(time.Second)
			return value, nil
		})
		var first sync.WaitGroup
		first.Go(func() { _, _ = s.get(t.Context(), "key") })
		synctest.Wait()
		now.Store(7)
		s.forget(func(k string) bool { return k == "key" })
		s.forget(func(k string) bool { return k == "another" })
		for range 2 {
			if n, err := s.get(t.Context(), "key"); n != 7 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
			first.Wait()
		}
	})
}
