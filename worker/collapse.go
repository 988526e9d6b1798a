package worker

import (
	"context"
	"errors"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/clock"
)

// collapse makes way for the newest notification of a collapse key: an older
// one that still waits is superseded, and its slot inherited. It reports whether
// the delivery itself is the older one. What is being sent right now is not
// stopped: the device replaces it. What goes back to the queue is superseded there.
func (h *handler) collapse(ctx context.Context, d *delivery) (superseded bool, err error) {
	if d.CollapseKey == "" {
		return false, nil
	}
	wait := time.Duration(0)
	if !d.ExpiresAt.IsZero() {
		wait = max(0, time.Until(d.ExpiresAt))
	}
	var done []string
	for {
		newest, older, err := h.Records.Collapse(ctx, ledger.CollapseKey{App: d.App, User: d.User, Key: d.CollapseKey}, d.ID, d.accepted, wait, done)
		if err != nil || !newest || len(older) == 0 {
			return err == nil && !newest, err
		}
		for _, id := range older {
			if err := h.supersede(ctx, d, id); err != nil {
				return false, err
			}
		}
		done = older
	}
}

func (h *handler) supersede(ctx context.Context, d *delivery, older string) error {
	taken, err := h.Records.Take(ctx, older, push.Superseded, push.Contents)
	switch {
	case errors.Is(err, push.ErrUnknownID), errors.Is(err, push.ErrEnded):
		return nil
	case errors.Is(err, push.ErrUnderWay):
		h.overtaken.Add(older, time.Now())
		return nil
	case err != nil:
		return err
	}
	if request := h.request(d); taken.User == d.User && taken.Category == d.Category && len(request.Scopes) > 0 {
		// a place among those who wait: what it was admitted with is not inherited
		moved, err := h.Limiter.Inherit(ctx, request, older)
		if err != nil {
			return err
		}
		h.wake(moved)
		return h.freed(ctx, taken)
	}
	return h.free(ctx, taken)
}

const (
	// overtakenEvery is how often those are looked at that were overtaken, and
	// overtakenFor for how long: a visit is over by then, and one of a worker that
	// crashed is repeated.
	overtakenEvery = 500 * time.Millisecond
	overtakenFor   = time.Minute
	// What is beyond overtakenMost is superseded when it comes back by itself.
	overtakenMost = 10_000
)

// supersedeOvertaken supersedes what was overtaken and is back on the queue, so
// that it does not keep a slot until that slot.
func (h *handler) supersedeOvertaken(ctx context.Context) {
	clock.Every(ctx, overtakenEvery, func() {
		for _, id := range h.overtaken.Keys() {
			since, _ := h.overtaken.Peek(id)
			if h.supersedeBack(ctx, id) || time.Since(since) > overtakenFor {
				h.overtaken.Remove(id)
			}
		}
	})
}

// supersedeBack returns false for what is in a worker's hands still, or cannot be
// looked at. Its slot goes to who is next: the newer one may have ended by now.
func (h *handler) supersedeBack(ctx context.Context, id string) bool {
	taken, err := h.Records.Take(ctx, id, push.Superseded, push.Contents)
	if err != nil {
		return errors.Is(err, push.ErrUnknownID) || errors.Is(err, push.ErrEnded)
	}
	return h.free(ctx, taken) == nil // else freeTaken gives the slot back
}
