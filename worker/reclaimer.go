package worker

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/pushpace/pushpace/internal/base/logdedup"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/control"
)

// A reclaimer gives back the slots of notifications that producers, operators or newer notifications have
// taken from the queue. Producers do not know the limits; operators' processes and workers may crash
// before they give a slot back.
type reclaimer struct {
	*Options
	control *control.Control
	leads   func(shard int) bool
	slots   *slots
	events  *events
	repeats *logdedup.Log
}

// follow frees taken notifications in the shards that this worker leads, until ctx ends.
func (r *reclaimer) follow(ctx context.Context) {
	clock.Every(ctx, pollInterval, func() {
		if err := r.freeAll(ctx); err != nil && ctx.Err() == nil {
			r.repeats.Write(ctx, r.RedisLog, slog.LevelWarn, "slots of cancelled notifications are given back late", nil, slog.Any("error", err))
		}
	})
}

// freeAll frees as many notifications as it can: an error of one user or node does not delay others. It
// returns the first error.
func (r *reclaimer) freeAll(ctx context.Context) error {
	shards, failed := r.records.All(ctx)
	for _, at := range shards {
		for more := r.leads(at.Number); more; {
			var all []*store.Taken
			var err error
			all, more, err = at.ClaimNotes(ctx, control.Batch)
			if unfreed := r.free(ctx, all); err == nil {
				err = unfreed
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

// free gives back the slots, wakes the jobs behind them, and counts the ends. It returns the first
// error.
func (r *reclaimer) free(ctx context.Context, all []*store.Taken) error {
	left, errs := r.control.GiveBackAll(ctx, all)
	for _, l := range left {
		r.slots.follow(l.Request, l.FollowUp)
	}
	var failed error
	given := make([]*store.Taken, 0, len(all))
	for i, err := range errs {
		if err == nil {
			given = append(given, all[i])
		} else if failed == nil {
			failed = err
		}
	}
	first, err := store.DeleteNotes(ctx, given)
	for _, one := range first { // only one worker counts each end
		r.events.endedElsewhere(ctx, one)
	}
	return cmp.Or(failed, err)
}
