package control

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/queue"
)

const (
	// takenAtOnce is how many of the muted are taken from the queue side by side.
	takenAtOnce = 16
	// pagePause lies between two pages of what waits: Redis serves others then.
	pagePause = 500 * time.Microsecond
	// looks is how often a spot is looked through at most.
	looks = 3
)

// LevelOf is whose limits and mutes the notification goes by.
func LevelOf(n *push.Notification) limits.Level {
	return limits.Level{App: n.App, User: n.User, Category: n.Category}
}

// EndMuted takes from the queue what waits of those who are muted: it ends, and workers give
// its slots back. What a worker has in hand ends there.
func (c *Control) EndMuted(ctx context.Context) error {
	shards, err := c.records.All(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, at := range shards {
		errs = append(errs, c.endMuted(ctx, at))
	}
	return errors.Join(errs...)
}

func (c *Control) endMuted(ctx context.Context, at *ledger.Shard) error {
	var failed error
	for _, spot := range queue.Spots {
		if spot.State == queue.JobActive {
			continue
		}
		// Again where some were taken: what is behind them may have moved past the look.
		// What comes later ends at its first visit.
		for look, taken := 0, true; taken && look < looks; look++ {
			var err error
			if taken, err = c.endThere(ctx, at, spot); err != nil {
				failed = errors.Join(failed, err)
				break
			}
		}
	}
	return failed
}

// endThere looks once through the jobs of a spot, and reports whether it has taken any.
func (c *Control) endThere(ctx context.Context, at *ledger.Shard, spot queue.Spot) (taken bool, err error) {
	var position uint64
	for {
		jobs, next, err := c.jobs(at).Page(ctx, spot, position)
		if err != nil {
			return taken, err
		}
		some, err := c.endSome(ctx, at, jobs)
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
func (c *Control) endSome(ctx context.Context, at *ledger.Shard, jobs []queue.Waiting) (bool, error) {
	var taken atomic.Bool
	var taking errgroup.Group
	taking.SetLimit(takenAtOnce)
	for _, job := range jobs {
		decoded, err := push.Decode([]byte(job.Payload))
		if err != nil { // a worker will set it aside
			continue
		}
		n := decoded.Notification
		if !c.limits.Muted(LevelOf(n), n.Priority == push.Critical) {
			continue
		}
		taking.Go(func() error {
			one, err := at.TakeWithOthers(ctx, push.Ref{ID: n.ID, App: n.App, User: n.User}, push.Muted, push.Contents)
			switch {
			case err == nil:
				taken.Store(true)
				_ = one.Leave(ctx) // else its slot is given back a little later
			case redisreply.Of(err) != redisreply.None:
				return err
			}
			return nil // it has moved on, or is in hand, or cannot be read: it ends at its next visit
		})
	}
	err := taking.Wait()
	return taken.Load(), err
}
