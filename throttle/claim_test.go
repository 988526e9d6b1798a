package throttle

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
)

// Incomplete or foreign replies are never an admission.
func TestIncompleteClaimReplyIsRejected(t *testing.T) {
	t.Parallel()
	r := Request{User: "u", ID: "n", Scopes: []Scope{{General, Policy{MinGap: time.Millisecond}}}}
	theTime, nobody := []any{"1700000000", "000042"}, []any{}
	whole := []any{theTime, int64(0), []any{[]any{"foo", 1_700_000_000_000_000.0}}, int64(1)}
	large := []any{theTime, int64(0), []any{"foo", "1.70e+15"}, int64(1)} // RESP2, in scientific notation
	for _, replies := range [][]any{whole, large} {
		if c := new(claim); c.read(&r, replies) != nil || !c.entered || c.free != 1_700_000_000_001_000 {
			t.Errorf("%v are read as %+v", replies, c)
		}
	}
	for cut := range whole {
		if new(claim).read(&r, whole[:cut]) == nil {
			t.Errorf("the first %d replies are read", cut)
		}
	}
	for name, replies := range map[string][]any{
		"no time":          {int64(1), int64(0), nobody, int64(1)},
		"an array":         {theTime, int64(0), nobody, []any{}},
		"one user's error": {theTime, int64(0), errors.New("WRONGTYPE"), int64(1)},
	} {
		if new(claim).read(&r, replies) == nil {
			t.Errorf("%s is read", name)
		}
	}
}

// A claim is no admission if its score is too far from the server's time, or if it is a
// microsecond too early.
func TestClaimIsGrantedByScoreAndFreeTime(t *testing.T) {
	t.Parallel()
	const now = 1_000_000_000
	for _, c := range []struct {
		stamp, free int64 // after now
		want        bool
	}{
		{0, 0, true}, {0, 1, false},
		{-stampEarly, -stampEarly, true}, {-stampEarly, 0, false}, {-stampEarly - 1, -stampEarly - 1, false},
		{stampLate, 0, true}, {stampLate, 1, false}, {stampLate + 1, 0, false},
	} {
		if got := (&claim{now: now, stamp: now + c.stamp, entered: true, free: now + c.free}).judge(); got != c.want {
			t.Errorf("%+v: granted %t", c, got)
		}
	}
}

// replied is an error reply of Redis.
type replied string

func (r replied) Error() string { return string(r) }
func (replied) RedisError()     {}

// failingClaims makes a client's claims fail with the error, executed or not.
type failingClaims struct {
	err     error
	execute bool
}

func (f *failingClaims) run(_ context.Context, cmds []redis.Cmder, next func() error) error {
	if f.err == nil || cmds[0].Name() != "multi" {
		return next()
	}
	if f.execute {
		_ = next()
	}
	return redistest.Fail(cmds, f.err)
}

// The script decides a claim that Redis has not executed. After a lost reply the result is
// unknown, and a second call is granted with the one admission.
func TestLostClaimIsRetried(t *testing.T) {
	t.Parallel()
	moved := replied("MOVED 1 127.0.0.1:7000")
	lost := errors.New("the connection is lost")
	for name, tt := range map[string]struct {
		failingClaims
		fails bool
	}{
		"moved":                        {failingClaims{err: moved}, false},
		"lost on the way there":        {failingClaims{err: lost}, true},
		"executed, and its reply lost": {failingClaims{lost, true}, true},
	} {
		l := newClockedLine(t)
		l.limiter.client.AddHook(redistest.Around(tt.run))
		r := l.request("n", Policy{MinGap: 24 * time.Hour})
		d, err := l.limiter.Acquire(t.Context(), r)
		if failed := err != nil; failed != tt.fails {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
		tt.err = nil
		l.advance(time.Minute)
		if d, err := l.limiter.Acquire(t.Context(), r); err != nil || d.Status != Granted {
			t.Errorf("%s, and asked again: %+v, %v", name, d, err)
		}
		timeline, err := l.limiter.Timeline(t.Context(), r)
		if err != nil || len(timeline.Admissions[General]) != 1 || len(timeline.Bookings) > 0 {
			t.Errorf("%s: it holds %+v, %v", name, timeline, err)
		}
	}
}

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
