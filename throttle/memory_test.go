package throttle_test

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// What it decides is what the limiter on miniredis decides: TestMiniredis has the rules.
func TestMemoryGoesByItsClock(t *testing.T) {
	t.Parallel()
	clock := newSetClock()
	limiter, err := throttle.NewMemory(throttle.Options{Now: clock.now})
	if err != nil {
		t.Fatal(err)
	}
	defer limiter.Close()
	scopes := []throttle.Scope{{Name: throttle.General, Policy: throttle.Policy{MinGap: time.Hour}}}
	acquire := func(id string, want throttle.Status, left time.Duration) {
		t.Helper()
		d, err := limiter.Acquire(t.Context(), throttle.Request{User: "u1", ID: id, Scopes: scopes, Horizon: 3 * time.Hour})
		if err != nil || d.Status != want || d.Left.Round(time.Minute) != left || d.Now.Sub(clock.now()).Abs() > time.Millisecond {
			t.Errorf("%s at %s: %+v, %v; want %s with %s left", id, clock.now(), d, err, want, left)
		}
	}
	acquire("a", throttle.Granted, 0)
	acquire("b", throttle.Deferred, time.Hour)
	acquire("c", throttle.Deferred, 2*time.Hour)
	clock.advance(time.Hour)
	acquire("b", throttle.Granted, 0)
	acquire("c", throttle.Deferred, time.Hour)
	known, err := limiter.Timeline(t.Context(), throttle.Request{User: "u1", Scopes: scopes})
	if err != nil || len(known.Admissions[throttle.General]) != 2 || len(known.Bookings) != 1 {
		t.Errorf("%+v, %v", known, err)
	}
}

func TestMemoryEndsOnce(t *testing.T) {
	t.Parallel()
	limiter, err := throttle.NewMemory(throttle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := limiter.Close(); err != nil {
			t.Error(err)
		}
	}
	scopes := []throttle.Scope{{Name: throttle.General, Policy: throttle.Policy{MinGap: time.Hour}}}
	if _, err := limiter.Acquire(t.Context(), throttle.Request{User: "u1", ID: "a", Scopes: scopes}); err == nil {
		t.Error("it answers after its end")
	}
	if _, err := throttle.NewMemory(throttle.Options{Horizon: -1}); err == nil {
		t.Error("it takes a negative horizon")
	}
}
