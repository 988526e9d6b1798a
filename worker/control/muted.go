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
	// maxScans bounds the scans of a spot for jobs that move during a scan: such a job also ends at its
	// next visit.
	maxScans = 3
	// giveBackEvery is the interval at which a running EndMuted releases slots, before the release at its
	// end: each release places lines again. After a crash another worker releases them.
	giveBackEvery = 10 * time.Second
)

// LevelOf returns the level of the notification's limits and mutes.
func LevelOf(n *push.Notification) limits.Level {
	return limits.Level{App: n.App, User: n.User, Category: n.Category}
}

// EndMuted ends the muted waiting notifications, and releases their slots. Workers themselves end claimed
// notifications.
func (c *Control) EndMuted(ctx context.Context) error {
	shards, err := c.records.All(ctx)
	if err != nil {
		return err
	}
	e := &ending{Control: c}
	defer func() {
		if ctx.Err() != nil { // the worker is stopping
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

// An ending is a running EndMuted.
type ending struct {
	*Control
	taken []*store.Taken // slots not released yet
	since time.Time      // when the first of taken was taken
}

func (e *ending) endMuted(ctx context.Context, at *store.Shard) error {
	var failed error
	for _, spot := range store.Spots {
		if spot.State == store.JobActive {
			continue
		}
		// Taking jobs may move other jobs past the scan, so the scan is repeated. A job that arrives
		// later ends at its first visit.
		for look, taken := 0, true; taken && look < maxScans; look++ {
			var err error
			if taken, err = e.endSpot(ctx, at, spot); err != nil {
				failed = errors.Join(failed, err)
				break
			}
		}
	}
	return failed
}

// endSpot scans the jobs of a spot once, and reports whether it took any.
func (e *ending) endSpot(ctx context.Context, at *store.Shard, spot store.Spot) (taken bool, err error) {
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

// endSome ends the muted notifications among the jobs, and reports whether it ended any.
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
	taken, errs := at.TakeAll(ctx, refs, store.TakeOptions{State: push.Muted, Read: push.Contents, Others: store.AllOthers, Grace: giveBackEvery + clock.LastTimeout})
	some, failed := false, error(nil)
	for i, err := range errs {
		switch {
		case err == nil:
			some = true
			e.taken = append(e.taken, taken[i])
		case redisreply.Of(err) != redisreply.None:
			failed = err
		} // moved, claimed or unreadable: it ends at its next visit
	}
	if len(e.taken) > 0 && time.Since(e.since) >= giveBackEvery {
		e.giveBack(ctx)
	}
	return some, failed
}

// giveBack releases the slots of the notifications ended so far.
func (e *ending) giveBack(ctx context.Context) {
	e.releaseAll(ctx, e.taken)
	e.taken = nil
}
