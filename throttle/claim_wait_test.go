package throttle

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A call that waits for a running claim of this process fails at its caller's deadline, and
// begins no outage.
func TestAcquireWaitsForRunningClaim(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t)
	l.limiter.timeout = time.Second
	o := WithOutage(l.limiter, Open, OutageOptions{})
	r := l.request("n", Policy{MinGap: 10 * time.Second})
	user := l.limiter.user(&r)
	if !user.claiming.TryAcquire(1) {
		t.Fatal("nobody claims, and there is no place")
	}
	got := make(chan error, 1)
	go func() {
		d, err := o.Acquire(t.Context(), r)
		if d.Unchecked {
			err = errors.New("it is not checked")
		}
		got <- err
	}()
	long := time.NewTimer(l.limiter.timeout * 5 / 4)
	defer long.Stop()
	select {
	case err := <-got:
		t.Fatalf("it does not wait: %v", err)
	case <-long.C:
	}
	brief, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := l.limiter.Acquire(brief, r); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnavailable) {
		t.Errorf("the caller's time is over: %v", err)
	}
	user.claiming.Release(1)
	if err := <-got; err != nil {
		t.Error(err)
	}
	if stats := o.Stats(); stats != (OutageStats{}) {
		t.Errorf("%+v", stats)
	}
}
