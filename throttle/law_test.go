package throttle_test

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// A slot that is given again is given by the limits of all that wait. A request with
// others is held to its own.
func TestASlotByOthersLimits(t *testing.T) {
	t.Parallel()
	now := time.UnixMicro(1_700_000_000_000_000)
	limiter := throttle.NewTwin(throttle.TwinOptions{Now: func() time.Time { return now }})
	acquire := func(id, category string, wait time.Duration, p throttle.Policy) throttle.Decision {
		d, err := limiter.Acquire(t.Context(), throttle.Request{
			User: "u", ID: id, Category: category, Horizon: time.Hour, Wait: wait,
			Scopes: []throttle.Scope{{Name: throttle.General, Policy: p}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	strict := throttle.Policy{MinGap: 10 * time.Second}
	loose := throttle.Policy{Rates: []throttle.Rate{{Count: 2, Period: 3200 * time.Millisecond}}}
	gap := throttle.Policy{MinGap: time.Second}
	acquire("first", "x", 0, strict)
	late := acquire("late", "x", 0, strict)
	now = now.Add(late.Left + 100*time.Millisecond)
	acquire("changes", "z", 0, loose)
	now = now.Add(200 * time.Millisecond)
	ahead := acquire("ahead", "z", 3*time.Second, loose)
	now = now.Add(300 * time.Millisecond)
	if d := acquire("late", "x", 3*time.Second, gap); d.Status == throttle.Granted && d.At.Sub(ahead.At).Abs() < gap.MinGap {
		t.Errorf("granted %v from another, under a gap of %v", d.At.Sub(ahead.At), gap.MinGap)
	}
}
