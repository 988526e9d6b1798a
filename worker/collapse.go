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
	record, err := h.Records.Lookup(ctx, older)
	if errors.Is(err, push.ErrUnknownID) {
		return nil
	}
	if err != nil || record.State.Ended() {
		return err
	}
	err = h.control.take(ctx, older, record, push.Superseded, func(t taken) error {
		request := h.request(d)
		if t.Category == d.Category && len(request.Scopes) > 0 {
			return h.Limiter.Inherit(ctx, request, older)
		}
		request.ID, request.Scopes = older, h.Limits.Scopes(t.User, t.Category)
		moved, err := h.Limiter.Cancel(ctx, request)
		h.wake(moved)
		return err
	})
	if errors.Is(err, ErrUnderWay) || errors.Is(err, ErrEnded) {
		return nil
	}
	if err == nil {
		h.Observer.Ended(push.Superseded)
	}
	return err
}
