package worker

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/clock"
)

// giveBack returns the slot of a notification. What it was admitted with stays
// when that is used: a provider has taken it, or may have.
func (h *handler) giveBack(ctx context.Context, d *delivery, used bool) {
	h.wake(h.freeSlot(ctx, d, used))
}

// freeSlot is giveBack, and leaves who has come forward to the caller.
func (h *handler) freeSlot(ctx context.Context, d *delivery, used bool) []throttle.Booking {
	request := h.request(d)
	if len(request.Scopes) == 0 || d.term.Lost(ctx) { // then it is another worker's
		return nil
	}
	request.Used = used
	moved, err := h.Limiter.Cancel(ctx, request)
	if err != nil {
		h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "slot not given back", slog.String("id", d.ID), slog.Any("error", err))
	}
	return moved
}

// Of the bookings that a call has moved, the first wakeMost are woken for, and
// so many calls wait for it. What is beyond comes at its old slot. A call moves a
// page of a line at most for each it decides of, and nobody else tells of them.
const (
	movedKept = 1024
	wakeMost  = 500
)

// wake wakes the jobs whose slots have moved forward, beside the pipeline.
func (h *handler) wake(moved []throttle.Booking) {
	if len(moved) == 0 {
		return
	}
	select {
	case h.moved <- slices.Clone(moved[:min(len(moved), wakeMost)]):
	default:
	}
}

// wakeMoved wakes until the worker stops, and then what is left.
func (h *handler) wakeMoved(ctx context.Context) {
	for {
		select {
		case moved := <-h.moved:
			h.control.Wake(ctx, moved)
			continue
		case <-ctx.Done():
		}
		break
	}
	const rest = 2 * time.Second
	last, cancel := context.WithTimeout(context.Background(), rest)
	defer cancel()
	for len(h.moved) > 0 && last.Err() == nil {
		h.control.Wake(last, <-h.moved)
	}
}

const (
	// freeEvery is how often a worker looks for what was taken from the queue and
	// is not freed yet.
	freeEvery = 500 * time.Millisecond
	freeMost  = 100
)

// freeTaken gives back what notifications hold that were taken from the queue by
// producers, who know no limits, and by those who crashed in between. It counts
// their ends, and those of what operators have cancelled.
func (h *handler) freeTaken(ctx context.Context) {
	clock.Every(ctx, freeEvery, func() {
		if err := h.freeAbandoned(ctx); err != nil && ctx.Err() == nil {
			h.repeats.Tell(ctx, h.RedisLog, slog.LevelWarn, "slots of what was cancelled are given back late", nil, slog.Any("error", err))
		}
	})
}

// freeAbandoned gives back what it can, and returns the first of the errors: one
// user's timeline, or one node, is no reason for the others to wait.
func (h *handler) freeAbandoned(ctx context.Context) error {
	for {
		taken, more, failed := h.Records.Abandoned(ctx, freeMost)
		for _, t := range taken {
			if err := h.free(ctx, t); failed == nil {
				failed = err
			}
		}
		if failed != nil || !more {
			return failed
		}
	}
}

// free gives back what a notification holds, and wakes who comes forward by it.
func (h *handler) free(ctx context.Context, t *ledger.Taken) error {
	moved, err := h.control.GiveBack(ctx, t)
	h.wake(moved)
	if err != nil {
		return err
	}
	return h.freed(ctx, t)
}

// freed tells that nothing of the notification is left to give back. That is when
// its end is counted: once, by one of the workers, whoever has taken it.
func (h *handler) freed(ctx context.Context, t *ledger.Taken) error {
	first, err := h.Records.Freed(ctx, t)
	if first {
		h.endedByAnother(ctx, t)
	}
	return err
}
