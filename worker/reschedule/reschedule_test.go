package reschedule

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// planning records the placed lines, and fails for all categories but news.
type planning struct {
	throttle.Planner
	placed []string
}

func (p *planning) Replan(_ context.Context, all []throttle.Request) (throttle.FollowUp, error) {
	for _, r := range all {
		if p.placed = append(p.placed, r.Category); r.Category == "news" {
			return throttle.FollowUp{Others: []throttle.Line{{Category: "chat"}, {}}}, nil
		}
	}
	return throttle.FollowUp{}, throttle.ErrUnavailable
}

// move places all lines of a user again, also after an error for one line, and returns the error.
func TestMovePlacesAllLines(t *testing.T) {
	t.Parallel()
	p := &planning{}
	r := rescheduler{Config: Config{Limits: limits.New(throttle.Policy{}, nil), Limiter: p}}
	err := r.move(t.Context(), limits.Level{App: "shop", User: "ada", Category: "news"})
	if want := []string{"news", "chat", ""}; !errors.Is(err, throttle.ErrUnavailable) || !slices.Equal(p.placed, want) {
		t.Errorf("placed %q, %v; want %q", p.placed, err, want)
	}
}
