package worker

import (
	"context"
	"errors"
	"time"

	"github.com/pushpace/pushpace/push"
)

// collapse makes way for the newest notification of a collapse key: an older
// one that still waits is superseded, and its slot inherited. It answers whether
// the delivery itself is the older one. What is being sent right now is not
// stopped: the device replaces it.
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
	if errors.Is(err, push.ErrUnknownID) || errors.Is(err, ErrUnderWay) || errors.Is(err, ErrEnded) {
		return nil
	}
	if err != nil {
		return err
	}
	if request := h.request(d); taken.User == d.User && taken.Category == d.Category && len(request.Scopes) > 0 {
		// a place among those who wait: what it was admitted with is not inherited
		if err := h.Limiter.Inherit(ctx, request, older); err != nil {
			return err
		}
		return h.freed(ctx, taken)
	}
	return h.free(ctx, taken)
}
