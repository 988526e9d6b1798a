package control

import (
	"context"
	"slices"
	"strings"
	"time"

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

// Wake has jobs come back for slots that have moved forward. asynq would bring
// them back for the old ones. It returns within a few seconds.
func (c *Control) Wake(ctx context.Context, moved []throttle.Booking) {
	c.wake(ctx, moved, func(gain, left time.Duration) bool {
		return gain >= littleGain && (gain >= muchGain || left <= near)
	})
}

// WakeAll is Wake for those whose limits were raised: all come for their new slots.
func (c *Control) WakeAll(ctx context.Context, moved []throttle.Booking) {
	seen := make(map[string]bool, len(moved))
	slices.Reverse(moved) // of a booking that was moved twice the last slot counts
	moved = slices.DeleteFunc(moved, func(b throttle.Booking) bool {
		again := seen[b.ID]
		seen[b.ID] = true
		return again
	})
	slices.Reverse(moved)
	c.wake(ctx, moved, func(gain, _ time.Duration) bool { return gain >= littleGain })
}

// wake wakes those for whom it is worth its check: by how much they come forward,
// and how far the new slot is.
func (c *Control) wake(ctx context.Context, moved []throttle.Booking, worth func(gain, left time.Duration) bool) {
	for try := range wakeTries {
		if try > 0 && clock.Sleep(ctx, wakePause) != nil {
			return
		}
		var awake []throttle.Booking
		for some := range slices.Chunk(moved, wakePage) {
			awake = append(awake, c.wakeSome(ctx, some, worth)...)
		}
		if moved = awake; len(moved) == 0 {
			return
		}
	}
}

// wakeSome returns those that may be on their way to sleep.
func (c *Control) wakeSome(ctx context.Context, some []throttle.Booking, worth func(gain, left time.Duration) bool) (awake []throttle.Booking) {
	ids := make([]string, len(some))
	for i, b := range some {
		ids[i] = b.ID
	}
	known, err := c.records.Briefs(ctx, ids)
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
		inHand, err := c.inspector.WakeAll(ctx, queue, ids)
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
func (c *Control) Gained(ctx context.Context, moved []throttle.Booking) (ids []string, err error) {
	all := make([]string, len(moved))
	for i, b := range moved {
		all[i] = b.ID
	}
	old, err := c.records.Briefs(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, b := range moved {
		if old[b.ID].Until.Sub(b.Slot) >= littleGain {
			ids = append(ids, b.ID)
		}
	}
	return ids, nil
}

// momentary are the reasons for which a parked job may have returned before: none of them
// makes a job wait for long.
var momentary = []queue.Why{"", queue.ProviderBusy, queue.RedisRefuses, queue.TooLate, queue.Unchecked}

// WakeOver wakes the jobs that wait for the quota. A parked job does not say what for: it
// is woken where its message has one of the marks, and parked again if it waited for
// something else of its route.
func (c *Control) WakeOver(ctx context.Context, key string, marks []string) error {
	for _, spot := range queue.Spots {
		var position uint64
		for more := spot.State == queue.JobPutOff; more; more = position > 0 {
			jobs, next, err := c.inspector.Page(ctx, spot, position)
			if err != nil {
				return err
			}
			position = next
			var ids []string
			for _, job := range jobs {
				marked := func(mark string) bool { return strings.Contains(job.Payload, mark) }
				if slices.Contains(momentary, job.Last.Why) && slices.ContainsFunc(marks, marked) || job.Last.Why == queue.OverQuota && job.Last.Key == key {
					ids = append(ids, job.ID)
				}
			}
			if len(ids) == 0 {
				continue
			}
			if _, err := c.inspector.WakeAll(ctx, spot.Queue, ids); err != nil {
				return err
			}
		}
	}
	return nil
}
