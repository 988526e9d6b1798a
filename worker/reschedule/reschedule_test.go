package reschedule

import (
	"context"
	"errors"
	"testing"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// A failing limiter has moved one when its store goes away.
type failing struct{ throttle.Planner }

func (failing) Reschedule(context.Context, throttle.Request) ([]throttle.Booking, error) {
	return []throttle.Booking{{ID: "moved"}}, throttle.ErrUnavailable
}

// Who has moved before a failure is woken: to try again moves the others.
func TestThoseMovedBeforeAFailureAreTold(t *testing.T) {
	t.Parallel()
	r := rescheduler{Config: Config{Limits: limits.New(throttle.Policy{}, nil), Limiter: failing{}}}
	moved, err := r.move(t.Context(), limits.Level{App: "shop", User: "ada"})
	if !errors.Is(err, throttle.ErrUnavailable) || len(moved) != 1 || moved[0].ID != "moved" {
		t.Errorf("moved %v, %v", moved, err)
	}
}
