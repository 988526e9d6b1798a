package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// slots gives slots back, and wakes the jobs that come forward by it.
type slots struct {
	*Options
	control *control.Control
	placed  chan placed
}

// placed is what a call of the limiter has left to do.
type placed struct {
	request throttle.Request
	throttle.Placed
}

func newSlots(o *Options, c *control.Control) *slots {
	return &slots{Options: o, control: c, placed: make(chan placed, placedKept)}
}

// request is what the throttle is asked with about the delivery.
func (o *Options) request(d *delivery) throttle.Request {
	horizon := time.Duration(pause.Forever)
	if !d.ExpiresAt.IsZero() {
		horizon = max(0, time.Until(d.ExpiresAt))
	}
	return throttle.Request{
		App: d.App, User: d.User, ID: d.ID, Category: d.Category, Zone: d.zone, Passes: d.Priority == push.Critical,
		Scopes: o.Limits.Scopes(d.App, d.User, d.Category), Horizon: horizon,
		MaxBooked: o.MaxBooked, Kept: d.kept(), Elder: d.elder,
	}
}

// kept reports whether a full line does not reject the delivery: it is critical, or an
// earlier visit or ask has had it in the line or held it.
func (d *delivery) kept() bool {
	return d.Priority == push.Critical || d.known || d.asked || d.attempts > 0 || d.replay || d.heir
}

// giveBack returns the slot of a notification. What it was admitted with stays
// when that is used: a provider has taken it, or may have.
func (s *slots) giveBack(ctx context.Context, d *delivery, used bool) error {
	placed, err := s.free(ctx, d, used)
	s.follow(s.request(d), placed)
	return err
}

// free is giveBack, and leaves it to the caller to wake the jobs that have come forward.
func (s *slots) free(ctx context.Context, d *delivery, used bool) (throttle.Placed, error) {
	request := s.request(d)
	if len(request.Scopes) == 0 || d.term.Lost(ctx) { // then it is another worker's
		return throttle.Placed{}, nil
	}
	request.Used = used
	placed, err := s.Limiter.Cancel(ctx, request)
	if err != nil {
		s.RedisLog.LogAttrs(ctx, slog.LevelWarn, "slot not given back", slog.String("id", d.ID), slog.Any("error", err))
	}
	return placed, err
}

// placedKept is how many calls wait for the wake-ups of those before them. One beyond is dropped,
// and the next call for its user names the same jobs.
const placedKept = 1024

// follow does what a call of the limiter has left to do, beside the pipeline.
func (s *slots) follow(r throttle.Request, p throttle.Placed) {
	if !p.Any() {
		return
	}
	select {
	case s.placed <- placed{r, p}:
	default:
	}
}

// run does that until ctx ends, and then what is left.
func (s *slots) run(ctx context.Context) {
	for {
		select {
		case p := <-s.placed:
			s.control.Follow(ctx, p.request, p.Placed)
			continue
		case <-ctx.Done():
		}
		break
	}
	last, cancel := context.WithTimeout(context.Background(), clock.LastTimeout)
	defer cancel()
	for len(s.placed) > 0 && last.Err() == nil {
		p := <-s.placed
		s.control.Follow(last, p.request, p.Placed)
	}
	s.control.Rest(last)
}
