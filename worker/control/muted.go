package control

import (
	"context"
	"errors"
	"time"

	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/clock"
)

const (
	// looks is how often a job is looked for at most that may be on its way to another place: a
	// mute binds its next visit anyway.
	looks = 3
	// A mute gives slots back at its end, so that each line is placed again once, or
	// giveBackEvery. After a crash another worker gives them back.
	giveBackEvery = 10 * time.Second
)

// LevelOf is whose limits and mutes the notification goes by.
func LevelOf(n *push.Notification) limits.Level {
	return limits.Level{App: n.App, User: n.User, Category: n.Category}
}

// EndMuted ends the waiting notifications that are muted. Their slots go to the notifications
// behind them. A worker ends those that it has in flight.
func (c *Control) EndMuted(ctx context.Context) error {
	shards, err := c.records.All(ctx)
	if err != nil {
		return err
	}
	e := &ending{Control: c}
	defer func() {
		if ctx.Err() != nil { // the worker stops
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), clock.LastTimeout)
			defer cancel()
			e.giveBack(last)
			return
		}
		e.giveBack(ctx)
	}()
	var errs []error
	for _, at := range shards {
		errs = append(errs, e.endMuted(ctx, at))
	}
	return errors.Join(errs...)
}

// An ending is an EndMuted under way.
type ending struct {
	*Control
	taken []*store.Taken // whose slots are not given back yet
	since time.Time      // when the first of taken was taken
}

func (e *ending) endMuted(ctx context.Context, at *store.Shard) error {
	var failed error
	for _, spot := range store.Spots {
		if spot.State == store.JobActive {
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
func (e *ending) endThere(ctx context.Context, at *store.Shard, spot store.Spot) (taken bool, err error) {
	var position uint64
	for {
		jobs, next, err := at.Page(ctx, spot, position)
		if err != nil {
			return taken, err
		}
		some, err := e.endSome(ctx, at, jobs)
		taken = taken || some
		if err == nil {
			err = clock.Sleep(ctx, clock.ScanPause)
		}
		if position = next; err != nil || position == 0 {
			return taken, err
		}
	}
}

// endSome ends those of the jobs that are muted, and reports whether there were any.
func (e *ending) endSome(ctx context.Context, at *store.Shard, jobs []store.Queued) (bool, error) {
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
	if len(e.taken) == 0 {
		e.since = time.Now()
	}
	taken, errs := at.TakeAll(ctx, refs, store.How{State: push.Muted, Read: push.Contents, Others: true, Grace: giveBackEvery + clock.LastTimeout})
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
	if len(e.taken) > 0 && time.Since(e.since) >= giveBackEvery {
		e.giveBack(ctx)
	}
	return some, failed
}

// giveBack gives back the slots of the notifications that have ended so far.
func (e *ending) giveBack(ctx context.Context) {
	e.freeAll(ctx, e.taken)
	e.taken = nil
}
