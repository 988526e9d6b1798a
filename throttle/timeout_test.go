package throttle

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// A timed-out call is retried once, because this process may have been stopped. A refused call or
// a probe is not retried.
func TestTimeoutIsRetriedBeforeOutage(t *testing.T) {
	t.Parallel()
	errLate := fmt.Errorf("%w: %w", ErrUnavailable, context.DeadlineExceeded)
	s := &scriptedStore{}
	times := func(n int64, err error) {
		late := s.calls.Load() + n
		s.set(func(context.Context) error {
			if s.calls.Load() <= late {
				return err
			}
			return nil
		})
	}
	o := WithOutage(s, Open, OutageOptions{})
	times(1, errLate)
	if d, err := o.Acquire(t.Context(), outageCall); err != nil || d.Unchecked || d.Status != Deferred || s.calls.Load() != 2 {
		t.Errorf("%+v, %v, by %d calls", d, err, s.calls.Load())
	}
	times(1, errLate)
	before := s.calls.Load()
	if moved, err := o.Replan(t.Context(), []Request{outageCall}); err != nil || len(moved.Early) != 1 || s.calls.Load() != before+2 {
		t.Errorf("it tells of %v, %v, by %d calls", moved, err, s.calls.Load())
	}
	if stats := o.Stats(); stats != (OutageStats{}) {
		t.Errorf("%+v", stats)
	}
	for _, tt := range []struct {
		err   error
		calls int64
	}{{errRefused, 1}, {errLate, 2}, {fmt.Errorf("%w: %w", ErrUnavailable, redis.ErrPoolTimeout), 2}} {
		synctest.Test(t, func(t *testing.T) {
			o := WithOutage(s, Open, OutageOptions{})
			times(10, tt.err)
			for _, calls := range []int64{tt.calls, 1} { // the second is a probe
				before := s.calls.Load()
				if d, err := o.Acquire(t.Context(), outageCall); err != nil || !d.Unchecked || s.calls.Load()-before != calls {
					t.Errorf("%v: %+v, %v, by %d calls", tt.err, d, err, s.calls.Load()-before)
				}
				time.Sleep(probeInterval)
			}
			if stats := o.Stats(); stats.Outages != 1 || stats.Unchecked != 2 {
				t.Errorf("%v: %+v", tt.err, stats)
			}
		})
	}
}
