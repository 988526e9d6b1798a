package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// unacquiredEvery lies between two lines about users whose limits cannot be
// checked: each of what is theirs tries again every few seconds.
const unacquiredEvery = time.Minute

// notAcquired tells of one user whose limits cannot be checked. Of a Redis that
// is away for all tells throttle.Outage. It answers why the notification waits,
// which is with its job.
func (h *handler) notAcquired(ctx context.Context, d *delivery, err error) error {
	if errors.Is(err, throttle.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	why := fmt.Errorf("%w: %w", errUnchecked, err)
	last, now := h.unacquired.Load(), time.Now().UnixNano()
	if last != 0 && now-last < int64(unacquiredEvery) || !h.unacquired.CompareAndSwap(last, now) {
		return why
	}
	h.Log.LogAttrs(ctx, slog.LevelWarn, "the limits of a user cannot be checked, and what is theirs waits: look at that user's keys in the limits' Redis",
		slog.String("app", d.App), slog.String("id", d.ID), slog.Any("error", err))
	return why
}
