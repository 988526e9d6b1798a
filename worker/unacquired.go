package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// notAcquired tells of one user whose limits cannot be checked. Of a Redis that
// is away for all tells throttle.Outage. It answers why the notification waits,
// which is with its job.
func (h *handler) notAcquired(ctx context.Context, d *delivery, err error) error {
	if errors.Is(err, throttle.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	why := fmt.Errorf("%w: %w", errUnchecked, err)
	if !h.unacquired.due(time.Now()) { // each of what is theirs tries again every few seconds
		return why
	}
	h.Log.LogAttrs(ctx, slog.LevelWarn, "the limits of a user cannot be checked, and what is theirs waits: look at that user's keys in the limits' Redis",
		slog.String("app", d.App), slog.String("id", d.ID), slog.Any("error", err))
	return why
}

// rarely is when something was logged last that goes on happening. The zero value is
// that it was not.
type rarely struct{ last atomic.Int64 }

// due reports whether it is to be logged again.
func (r *rarely) due(now time.Time) bool {
	last := r.last.Load()
	return (last == 0 || now.UnixNano()-last >= int64(time.Minute)) && r.last.CompareAndSwap(last, now.UnixNano())
}
