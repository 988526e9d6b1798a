package throttle_test

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

func TestMemoryEndsOnce(t *testing.T) {
	t.Parallel()
	limiter, err := throttle.NewMemory(throttle.Options{})
	must(t, err)
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
