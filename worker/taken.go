package worker

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/repeats"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/roles"
)

// taken gives back what notifications hold that were taken from the queue: by producers and
// operators, who know no limits, by newer ones, and by those who crashed in between.
type taken struct {
	*Options
	control *control.Control
	roles   *roles.Roles
	slots   *slots
	events  *events
	rounds  atomic.Int64
	repeats *repeats.Log
}

const (
	// freeEvery is how often a worker looks for what was taken from the queue and
	// is not freed yet.
	freeEvery = 500 * time.Millisecond
	freeMost  = 100
)

// follow frees what others have taken, until ctx ends.
func (t *taken) follow(ctx context.Context) {
	clock.Every(ctx, freeEvery, func() {
		if err := t.freeAll(ctx); err != nil && ctx.Err() == nil {
			t.repeats.Tell(ctx, t.RedisLog, slog.LevelWarn, "slots of what was cancelled are given back late", nil, slog.Any("error", err))
		}
	})
}

// freeAll frees what it can, and returns the first of the errors: one user's timeline, or
// one node, is no reason for the others to wait.
func (t *taken) freeAll(ctx context.Context) error {
	round := t.rounds.Add(1)
	shards, failed := t.records.All(ctx)
	for _, at := range shards {
		for more := !t.roles.Of(at.Number).Rests(round); more; {
			var all []*ledger.Taken
			var err error
			all, more, err = at.Abandoned(ctx, freeMost)
			for _, one := range all {
				if unfreed := t.free(ctx, one); err == nil {
					err = unfreed
				}
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

// free gives back what a notification holds, and wakes those that come forward by it.
func (t *taken) free(ctx context.Context, one *ledger.Taken) error {
	request, placed, err := t.control.GiveBack(ctx, one)
	t.slots.follow(request, placed)
	if err != nil {
		return err
	}
	return t.freed(ctx, one)
}

// freed tells that nothing of the notification is left to give back. That is when its end
// is counted: once, by one of the workers, whoever has taken it.
func (t *taken) freed(ctx context.Context, one *ledger.Taken) error {
	first, err := ledger.Freed(ctx, []*ledger.Taken{one})
	for _, one := range first {
		t.events.endedElsewhere(ctx, one)
	}
	return err
}
