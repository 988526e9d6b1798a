package worker

import (
	"context"
	"slices"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/clock"
)

// Of the bookings that a call has moved, the first wakeMost are woken for, and
// so many calls wait for it. What is beyond comes at its old slot.
const (
	movedKept = 1024
	wakeMost  = 64
)

// wake has those come back whose slot has moved forward, beside the pipeline.
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
	// A job is woken, which costs a check, when its new slot is near and at least
	// littleGain earlier, or much earlier wherever it is. Behind a line that moves
	// by little, the others come as much after their new slots, at no cost.
	littleGain = 500 * time.Millisecond
	near       = 5 * time.Second
	muchGain   = 10 * time.Second
	// One that is not asleep yet is looked for again.
	wakeTries = 3
	wakePause = 500 * time.Millisecond
)

// Wake has jobs come back for slots that have moved forward. asynq would bring
// them back for the old ones. It returns within a few seconds.
func (c *Control) Wake(ctx context.Context, moved []throttle.Booking) {
	c.wake(ctx, moved, func(gain, left time.Duration) bool {
		return gain >= littleGain && (gain >= muchGain || left <= near)
	})
}

// wakeAll is Wake for those whose limits were raised: all come for their new slots.
func (c *Control) wakeAll(ctx context.Context, moved []throttle.Booking) {
	seen := make(map[string]bool, len(moved))
	moved = slices.DeleteFunc(moved, func(b throttle.Booking) bool {
		again := seen[b.ID]
		seen[b.ID] = true
		return again
	})
	c.wake(ctx, moved, func(gain, _ time.Duration) bool { return gain >= littleGain })
}

// wake wakes those for whom it is worth its check: by how much they come forward,
// and how far the new slot is.
func (c *Control) wake(ctx context.Context, moved []throttle.Booking, worth func(gain, left time.Duration) bool) {
	for try := range wakeTries {
		if try > 0 && clock.Sleep(ctx, wakePause) != nil {
			return
		}
		var awake []throttle.Booking
		for _, b := range moved {
			if !c.wakeOne(ctx, b, worth) {
				awake = append(awake, b)
			}
		}
		if moved = awake; len(moved) == 0 {
			return
		}
	}
}

// wakeOne answers false for a job that may be on its way to sleep.
func (c *Control) wakeOne(ctx context.Context, b throttle.Booking, worth func(gain, left time.Duration) bool) bool {
	record, err := c.records.Lookup(ctx, b.ID)
	switch {
	case err != nil, record.State.Ended():
		return true
	case record.Until.IsZero():
		return false
	}
	if !worth(record.Until.Sub(b.Slot), time.Until(b.Slot)) {
		return true
	}
	return c.inspector.Wake(record.Queue, b.ID)
}
