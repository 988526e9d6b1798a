package worker

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/repeats"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/roles"
)

// slots gives slots back, and wakes the jobs that come forward by it.
type slots struct {
	*Options
	control *control.Control
	moved   chan control.Moved
}

func newSlots(o *Options, c *control.Control) *slots {
	return &slots{Options: o, control: c, moved: make(chan control.Moved, movedKept)}
}

// forever is further ahead than any notification waits.
const forever = 10 * 365 * 24 * time.Hour

// request is what the throttle is asked with about the delivery.
func (o *Options) request(d *delivery) throttle.Request {
	horizon := time.Duration(forever)
	if !d.ExpiresAt.IsZero() {
		horizon = max(0, time.Until(d.ExpiresAt))
	}
	return throttle.Request{
		App: d.App, User: d.User, ID: d.ID, Category: d.Category, Accepted: d.place(), Zone: d.zone, ZoneAt: d.accepted, Passes: d.Priority == push.Critical,
		Scopes: o.Limits.Scopes(d.App, d.User, d.Category), Horizon: horizon,
		MaxBooked: o.MaxBooked,
	}
}

// place is the instant that says the notification's place among those that wait: when
// it was accepted or may go at first. What returns from an attempt or is requeued
// comes behind those that wait then.
func (d *delivery) place() time.Time {
	if d.attempts > 0 || d.replay {
		return time.Time{}
	}
	return d.due()
}

// giveBack returns the slot of a notification. What it was admitted with stays
// when that is used: a provider has taken it, or may have.
func (s *slots) giveBack(ctx context.Context, d *delivery, used bool) error {
	moved, err := s.free(ctx, d, used)
	s.wake(d.App, d.User, moved)
	return err
}

// free is giveBack, and leaves it to the caller to wake the jobs that have come forward.
func (s *slots) free(ctx context.Context, d *delivery, used bool) ([]throttle.Booking, error) {
	request := s.request(d)
	if len(request.Scopes) == 0 || d.term.Lost(ctx) { // then it is another worker's
		return nil, nil
	}
	request.Used = used
	moved, err := s.Limiter.Cancel(ctx, request)
	if err != nil {
		s.RedisLog.LogAttrs(ctx, slog.LevelWarn, "slot not given back", slog.String("id", d.ID), slog.Any("error", err))
	}
	return moved, err
}

// movedKept is how many calls that have moved bookings wait for the wake-ups of those before
// them. What is moved beyond comes at its old slot, and nobody else tells of it.
const movedKept = 1024

// wake wakes the jobs whose slots have moved forward, beside the pipeline.
func (s *slots) wake(app, user string, moved []throttle.Booking) {
	if len(moved) == 0 {
		return
	}
	select {
	case s.moved <- control.Moved{App: app, User: user, Bookings: slices.Clone(moved)}:
	default:
	}
}

// follow wakes until ctx ends, and then for what is left.
func (s *slots) follow(ctx context.Context) {
	for {
		select {
		case moved := <-s.moved:
			s.control.Wake(ctx, moved)
			continue
		case <-ctx.Done():
		}
		break
	}
	const rest = 2 * time.Second
	last, cancel := context.WithTimeout(context.Background(), rest)
	defer cancel()
	for len(s.moved) > 0 && last.Err() == nil {
		s.control.Wake(last, <-s.moved)
	}
}

// taken gives back what notifications hold that were taken from the queue: by producers and
// operators, who know no limits, by newer ones, and by those who crashed in between.
type taken struct {
	*Options
	control *control.Control
	roles   *roles.Roles
	slots   *slots
	events  *events
	rounds  atomic.Int64
	repeats *repeats.Log
}

const (
	// freeEvery is how often a worker looks for what was taken from the queue and
	// is not freed yet.
	freeEvery = 500 * time.Millisecond
	freeMost  = 100
)

// follow frees what others have taken, until ctx ends.
func (t *taken) follow(ctx context.Context) {
	clock.Every(ctx, freeEvery, func() {
		if err := t.freeAll(ctx); err != nil && ctx.Err() == nil {
			t.repeats.Tell(ctx, t.RedisLog, slog.LevelWarn, "slots of what was cancelled are given back late", nil, slog.Any("error", err))
		}
	})
}

// freeAll frees what it can, and returns the first of the errors: one user's timeline, or
// one node, is no reason for the others to wait.
func (t *taken) freeAll(ctx context.Context) error {
	round := t.rounds.Add(1)
	shards, failed := t.records.All(ctx)
	for _, at := range shards {
		for more := !t.roles.Of(at.Number).Rests(round); more; {
			var all []*ledger.Taken
			var err error
			all, more, err = at.Abandoned(ctx, freeMost)
			for _, one := range all {
				if unfreed := t.free(ctx, one); err == nil {
					err = unfreed
				}
			}
			if err != nil {
				more = false
			}
			if failed == nil {
				failed = err
			}
		}
	}
	return failed
}

// free gives back what a notification holds, and wakes those that come forward by it.
func (t *taken) free(ctx context.Context, one *ledger.Taken) error {
	moved, err := t.control.GiveBack(ctx, one)
	t.slots.wake(one.App, one.User, moved)
	if err != nil {
		return err
	}
	return t.freed(ctx, one)
}

// freed tells that nothing of the notification is left to give back. That is when its end
// is counted: once, by one of the workers, whoever has taken it.
func (t *taken) freed(ctx context.Context, one *ledger.Taken) error {
	first, err := one.Freed(ctx)
	if first {
		t.events.endedElsewhere(ctx, one)
	}
	return err
}
