package control

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/queue"
)

const (
	// takenAtOnce is how many of the muted are taken from the queue side by side, and
	// pagePause lies between two pages of what waits, so that Redis serves others too.
	takenAtOnce = 16
	pagePause   = 500 * time.Microsecond
)

// levelOf is whose limits and mutes the notification goes by.
func levelOf(n *push.Notification) limits.Level {
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
		var position uint64
		for more := spot.State != queue.JobActive; more; more = position > 0 {
			jobs, next, err := c.jobs(at).Page(ctx, spot, position)
			if err != nil {
				return err
			}
			position = next
			failed = errors.Join(failed, c.endSome(ctx, at, jobs))
			if err := clock.Sleep(ctx, pagePause); err != nil {
				return err
			}
		}
	}
	return failed
}

// endSome ends those of the jobs that are muted. It returns the first error: those of the
// others that failed are found again.
func (c *Control) endSome(ctx context.Context, at *ledger.Shard, jobs []queue.Waiting) error {
	var taking errgroup.Group
	taking.SetLimit(takenAtOnce)
	for _, job := range jobs {
		decoded, err := push.Decode([]byte(job.Payload))
		if err != nil { // a worker will set it aside
			continue
		}
		n := decoded.Notification
		if !c.limits.Muted(levelOf(n), n.Priority == push.Critical) {
			continue
		}
		taking.Go(func() error {
			taken, err := at.Take(ctx, push.Ref{ID: n.ID, App: n.App, User: n.User}, push.Muted, push.Contents)
			switch {
			case err == nil:
				return taken.Leave(ctx)
			case errors.Is(err, push.ErrUnknownID), errors.Is(err, push.ErrEnded), errors.Is(err, push.ErrUnderWay):
				return nil
			}
			return err
		})
	}
	return taking.Wait()
}
