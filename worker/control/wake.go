package control

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/queue"
)

const (
	// A job is woken, which costs a check, when its new slot is near and at least
	// littleGain earlier, or much earlier wherever it is. Behind a line that moves
	// by little, the others come as much after their new slots, at no cost.
	littleGain = 500 * time.Millisecond
	near       = 5 * time.Second
	muchGain   = 10 * time.Second
	// So many are looked at and woken in a round trip each.
	wakePage = 500
	// One that is not asleep yet is looked for again.
	wakeTries = 3
	wakePause = 500 * time.Millisecond
)

// Moved are bookings of a user that have moved.
type Moved struct {
	App, User string
	Bookings  []throttle.Booking
}

// Wake has jobs come back for slots that have moved forward. asynq would bring
// them back for the old ones. It returns within a few seconds.
func (c *Control) Wake(ctx context.Context, moved Moved) {
	c.wake(ctx, []Moved{moved}, func(gain, left time.Duration) bool {
		return gain >= littleGain && (gain >= muchGain || left <= near)
	})
}

// WakeAll is Wake for those whose limits were raised: all come for their new slots.
func (c *Control) WakeAll(ctx context.Context, moved []Moved) {
	c.wake(ctx, moved, func(gain, _ time.Duration) bool { return gain >= littleGain })
}

// wake wakes those for whom it is worth its check: by how much they come forward,
// and how far the new slot is.
func (c *Control) wake(ctx context.Context, moved []Moved, worth func(gain, left time.Duration) bool) {
	asleep := map[*ledger.Shard][]throttle.Booking{}
	for _, m := range moved {
		at, err := c.records.Of(ctx, m.App, m.User)
		if err != nil {
			return
		}
		asleep[at] = append(asleep[at], m.Bookings...)
	}
	for at, list := range asleep {
		asleep[at] = lastMoves(list)
	}
	for try := range wakeTries {
		if try > 0 && clock.Sleep(ctx, wakePause) != nil {
			return
		}
		for at, list := range asleep {
			var awake []throttle.Booking
			for some := range slices.Chunk(list, wakePage) {
				awake = append(awake, c.wakeSome(ctx, at, some, worth)...)
			}
			if asleep[at] = awake; len(awake) == 0 {
				delete(asleep, at)
			}
		}
		if len(asleep) == 0 {
			return
		}
	}
}

// lastMoves has each booking once: of one that was moved twice the last slot counts.
func lastMoves(moved []throttle.Booking) []throttle.Booking {
	seen := make(map[string]bool, len(moved))
	slices.Reverse(moved)
	moved = slices.DeleteFunc(moved, func(b throttle.Booking) bool {
		again := seen[b.ID]
		seen[b.ID] = true
		return again
	})
	slices.Reverse(moved)
	return moved
}

// wakeSome returns those that may be on their way to sleep.
func (c *Control) wakeSome(ctx context.Context, at *ledger.Shard, some []throttle.Booking, worth func(gain, left time.Duration) bool) (awake []throttle.Booking) {
	ids := make([]string, len(some))
	for i, b := range some {
		ids[i] = b.ID
	}
	known, err := at.Briefs(ctx, ids)
	if err != nil {
		return some
	}
	asleep := map[string][]string{} // by queue
	for _, b := range some {
		switch record, there := known[b.ID]; {
		case !there, record.State.Ended():
		case record.Until.IsZero():
			awake = append(awake, b)
		case worth(record.Until.Sub(b.Slot), time.Until(b.Slot)):
			asleep[record.Queue] = append(asleep[record.Queue], b.ID)
		}
	}
	for queue, ids := range asleep {
		inHand, err := c.jobs(at).WakeAll(ctx, queue, ids)
		if err != nil {
			inHand = ids
		}
		for _, b := range some {
			if slices.Contains(inHand, b.ID) {
				awake = append(awake, b)
			}
		}
	}
	return awake
}

// Gained are the IDs of those of the bookings that it is worth to wake for.
func (c *Control) Gained(ctx context.Context, moved Moved) (ids []string, err error) {
	at, err := c.records.Of(ctx, moved.App, moved.User)
	if err != nil {
		return nil, err
	}
	all := make([]string, len(moved.Bookings))
	for i, b := range moved.Bookings {
		all[i] = b.ID
	}
	old, err := at.Briefs(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, b := range moved.Bookings {
		if old[b.ID].Until.Sub(b.Slot) >= littleGain {
			ids = append(ids, b.ID)
		}
	}
	return ids, nil
}

// WakeOver wakes the jobs that have returned for want of the quota. What is parked for it is
// pulled as soon as there is room.
func (c *Control) WakeOver(ctx context.Context, key string) error {
	shards, err := c.records.All(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, at := range shards {
		errs = append(errs, c.wakeOver(ctx, c.jobs(at), key))
	}
	return errors.Join(errs...)
}

func (c *Control) wakeOver(ctx context.Context, jobsOf *queue.Inspector, key string) error {
	for _, spot := range queue.Spots {
		var position uint64
		for more := spot.State == queue.JobPutOff; more; more = position > 0 {
			jobs, next, err := jobsOf.Page(ctx, spot, position)
			if err != nil {
				return err
			}
			position = next
			var ids []string
			for _, job := range jobs {
				if job.Last.Why == queue.OverQuota && job.Last.Key == key {
					ids = append(ids, job.ID)
				}
			}
			if len(ids) == 0 {
				continue
			}
			if _, err := jobsOf.WakeAll(ctx, spot.Queue, ids); err != nil {
				return err
			}
		}
	}
	return nil
}
