package control

import (
	"context"
	"errors"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/queue"
)

const (
	// pagePause lies between two pages of what waits: Redis serves others then.
	pagePause = 500 * time.Microsecond
	// looks is how often a spot is looked through at most.
	looks = 3
	// So many end before their slots are given back, or all: a user's others move up once.
	endedAtOnce = 10_000
)

// LevelOf is whose limits and mutes the notification goes by.
func LevelOf(n *push.Notification) limits.Level {
	return limits.Level{App: n.App, User: n.User, Category: n.Category}
}

// EndMuted takes from the queue what waits of those who are muted: it ends, and its slots go
// to those behind it. What a worker has in hand ends there.
func (c *Control) EndMuted(ctx context.Context) error {
	shards, err := c.records.All(ctx)
	if err != nil {
		return err
	}
	e := &ending{Control: c}
	defer e.giveBack(ctx)
	var errs []error
	for _, at := range shards {
		errs = append(errs, e.endMuted(ctx, at))
	}
	return errors.Join(errs...)
}

// An ending is an EndMuted under way.
type ending struct {
	*Control
	taken []*ledger.Taken // their slots are to be given back
}

func (e *ending) endMuted(ctx context.Context, at *ledger.Shard) error {
	var failed error
	for _, spot := range queue.Spots {
		if spot.State == queue.JobActive {
			continue
		}
		// Again where some were taken: what is behind them may have moved past the look.
		// What comes later ends at its first visit.
		for look, taken := 0, true; taken && look < looks; look++ {
			var err error
			if taken, err = e.endThere(ctx, at, spot); err != nil {
				failed = errors.Join(failed, err)
				break
			}
		}
	}
	return failed
}

// endThere looks once through the jobs of a spot, and reports whether it has taken any.
func (e *ending) endThere(ctx context.Context, at *ledger.Shard, spot queue.Spot) (taken bool, err error) {
	var position uint64
	for {
		jobs, next, err := e.jobs(at).Page(ctx, spot, position)
		if err != nil {
			return taken, err
		}
		some, err := e.endSome(ctx, at, jobs)
		taken = taken || some
		if err == nil {
			err = clock.Sleep(ctx, pagePause)
		}
		if position = next; err != nil || position == 0 {
			return taken, err
		}
	}
}

// endSome ends those of the jobs that are muted, and reports whether there were any.
func (e *ending) endSome(ctx context.Context, at *ledger.Shard, jobs []queue.Waiting) (bool, error) {
	var refs []push.Ref
	for _, job := range jobs {
		decoded, err := push.Decode([]byte(job.Payload))
		if err != nil { // a worker will set it aside
			continue
		}
		if n := decoded.Notification; e.limits.Muted(LevelOf(n), n.Priority == push.Critical) {
			refs = append(refs, push.Ref{ID: n.ID, App: n.App, User: n.User})
		}
	}
	if len(refs) == 0 {
		return false, nil
	}
	taken, errs := at.TakeAll(ctx, refs, push.Muted, push.Contents, true)
	some, failed := false, error(nil)
	for i, err := range errs {
		switch {
		case err == nil:
			some = true
			e.taken = append(e.taken, taken[i])
		case redisreply.Of(err) != redisreply.None:
			failed = err
		} // else it has moved on, or is in hand, or cannot be read: it ends at its next visit
	}
	if len(e.taken) >= endedAtOnce {
		e.giveBack(ctx)
	}
	return some, failed
}

// giveBack gives back what those hold that have ended. A worker does where this fails.
func (e *ending) giveBack(ctx context.Context) {
	left, _ := e.GiveBackAll(ctx, e.taken)
	for _, l := range left {
		e.Follow(ctx, l.Request, l.Placed)
	}
	e.taken = nil
}
