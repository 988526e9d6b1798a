package worker

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

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
		newest, older, err := h.Records.Collapse(ctx, d.Notification, d.accepted, wait, done)
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
	taken, err := h.Records.Take(ctx, older, push.Superseded)
	switch {
	case errors.Is(err, push.ErrUnknownID), errors.Is(err, push.ErrEnded):
		return nil
	case errors.Is(err, push.ErrUnderWay):
		h.overtaken.add(older, time.Now())
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

// overtaken are older notifications that some worker had in its hands, beyond its
// look at the collapse key, when a newer one came. The zero value is ready to use.
type overtaken struct {
	mu    sync.Mutex
	since map[string]time.Time // by ID
}

const (
	// overtakenEvery is how often they are looked at, and overtakenFor for how long:
	// a visit is over by then, and one of a worker that crashed is repeated.
	overtakenEvery = 500 * time.Millisecond
	overtakenFor   = time.Minute
	// What is beyond overtakenMost is superseded when it comes back by itself.
	overtakenMost = 10_000
)

func (o *overtaken) add(id string, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since == nil {
		o.since = make(map[string]time.Time)
	}
	if len(o.since) < overtakenMost {
		o.since[id] = now
	}
}

// all are those that are not dropped yet.
func (o *overtaken) all() map[string]time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.since)
}

func (o *overtaken) drop(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.since, id)
}

// supersedeOvertaken supersedes what was overtaken and is back on the queue, so
// that it does not keep a slot until that slot.
func (h *handler) supersedeOvertaken(ctx context.Context) {
	clock.Every(ctx, overtakenEvery, func() {
		for id, since := range h.overtaken.all() {
			if h.supersedeBack(ctx, id) || time.Since(since) > overtakenFor {
				h.overtaken.drop(id)
			}
		}
	})
}

// supersedeBack returns false for what is in a worker's hands still, or cannot be
// looked at. Its slot goes to who is next: the newer one may have ended by now.
func (h *handler) supersedeBack(ctx context.Context, id string) bool {
	taken, err := h.Records.Take(ctx, id, push.Superseded)
	if err != nil {
		return errors.Is(err, push.ErrUnknownID) || errors.Is(err, push.ErrEnded)
	}
	return h.free(ctx, taken) == nil // else freeTaken gives the slot back
}
