package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/clock"
)

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
	var logged rarely
	clock.Every(ctx, freeEvery, func() {
		if err := h.freeAbandoned(ctx); err != nil && ctx.Err() == nil && logged.due(time.Now()) {
			h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "slots of what was cancelled are given back late", slog.Any("error", err))
		}
	})
}

// freeAbandoned gives back what it can, and answers the first of the errors: one
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
func (h *handler) free(ctx context.Context, t *push.Taken) error {
	moved, err := h.control.giveBack(ctx, t)
	h.wake(moved)
	if err != nil {
		return err
	}
	return h.freed(ctx, t)
}

// freed tells that nothing of the notification is left to give back. That is when
// its end is counted: once, by one of the workers, whoever has taken it.
func (h *handler) freed(ctx context.Context, t *push.Taken) error {
	first, err := h.Records.Freed(ctx, t)
	if first {
		h.endedByAnother(ctx, t)
	}
	return err
}
