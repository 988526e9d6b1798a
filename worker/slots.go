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

// slots gives slots back, and wakes the jobs with slots that become earlier.
type slots struct {
	*Options
	control *control.Control
	placed  chan placed
}

// placed are the follow-ups of a limiter call: jobs to wake, and lines to place again.
type placed struct {
	request throttle.Request
	throttle.FollowUp
}

func newSlots(o *Options, c *control.Control) *slots {
	return &slots{Options: o, control: c, placed: make(chan placed, maxPlaced)}
}

// request returns the limiter's request for the delivery.
func (o *Options) request(d *delivery) throttle.Request {
	horizon := time.Duration(pause.Forever)
	if !d.ExpiresAt.IsZero() {
		horizon = max(0, time.Until(d.ExpiresAt))
	}
	return throttle.Request{
		App: d.App, User: d.User, ID: d.ID, Category: d.Category, Zone: d.zone, IgnoreQuiet: d.Priority == push.Critical,
		Scopes: o.Limits.Scopes(d.App, d.User, d.Category), Horizon: horizon,
		MaxBooked: o.MaxBooked, NeverReject: d.mayExceedLine(), Replaces: d.predecessor,
	}
}

// mayExceedLine reports whether the delivery may wait though its line is full: it is critical, is not
// new, or has replaced an older notification.
func (d *delivery) mayExceedLine() bool {
	return d.Priority == push.Critical || d.hasWaited || d.asked || d.attempts > 0 || d.replay || d.isSuccessor
}

// giveBack cancels the delivery's slot. It also cancels the admission unless used is true: a provider
// accepted the notification, or may have.
func (s *slots) giveBack(ctx context.Context, d *delivery, used bool) error {
	placed, err := s.free(ctx, d, used)
	s.follow(s.request(d), placed)
	return err
}

// free is giveBack without the follow-ups, which it returns.
func (s *slots) free(ctx context.Context, d *delivery, used bool) (throttle.FollowUp, error) {
	request := s.request(d)
	if len(request.Scopes) == 0 || d.term.Lost(ctx) { // another worker owns it
		return throttle.FollowUp{}, nil
	}
	request.Used = used
	placed, err := s.Limiter.Cancel(ctx, request)
	if err != nil {
		s.RedisLog.LogAttrs(ctx, slog.LevelWarn, "the slot of a notification could not be given back", slog.String("id", d.ID), slog.Any("error", err))
	}
	return placed, err
}

// maxPlaced bounds the queue of follow-ups. Further follow-ups are dropped: the next call for the user
// names the same jobs.
const maxPlaced = 1024

// follow queues the follow-ups of a limiter call for run.
func (s *slots) follow(r throttle.Request, p throttle.FollowUp) {
	if !p.Any() {
		return
	}
	select {
	case s.placed <- placed{r, p}:
	default:
	}
}

// run does the queued follow-ups until ctx ends, and then the remaining ones within clock.LastTimeout.
func (s *slots) run(ctx context.Context) {
	for {
		select {
		case p := <-s.placed:
			s.control.Follow(ctx, p.request, p.FollowUp)
			continue
		case <-ctx.Done():
		}
		break
	}
	last, cancel := context.WithTimeout(context.Background(), clock.LastTimeout)
	defer cancel()
	for len(s.placed) > 0 && last.Err() == nil {
		p := <-s.placed
		s.control.Follow(last, p.request, p.FollowUp)
	}
	s.control.Rest(last)
}
