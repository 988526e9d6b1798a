package worker

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/clock"
)

// holdings are the holds in force, by selector.
type holdings map[selector]Hold

func newHoldings(list []Hold) holdings {
	all := make(holdings, len(list))
	for _, hold := range list {
		all[hold.selector()] = hold
	}
	return all
}

// on answers a hold of what is sent for that app and category to that platform,
// the one without an end or with the last one where there are several; nil when
// there is none.
func (all holdings) on(now time.Time, app string, platform push.Platform, category string) *Hold {
	if len(all) == 0 {
		return nil
	}
	var last *Hold
	for i := range 8 {
		s := selector{app, string(platform), category}
		for j := range s {
			if i>>j&1 == 1 {
				s[j] = ""
			}
		}
		hold, ok := all[s]
		if !ok || hold.left(now) <= 0 {
			continue
		}
		if last == nil || hold.left(now) > last.left(now) {
			last = &hold
		}
	}
	return last
}

// left is how long the hold lasts.
func (h *Hold) left(now time.Time) time.Duration {
	if h.Until.IsZero() {
		return forever
	}
	return h.over.Sub(now)
}

// heldBy answers the operator's hold of the delivery's target.
func (h *handler) heldBy(d *delivery, i int, now time.Time) *Hold {
	return (*h.holding.Load()).on(now, d.App, d.Targets[i].Platform, d.Category)
}

// keepHolds has the worker know the holds of the list, and tells which have
// begun and ended since.
func (h *handler) keepHolds(ctx context.Context, list, ended []Hold) {
	now, over := newHoldings(list), newHoldings(ended)
	before := *h.holding.Swap(&now)
	for s, hold := range now {
		if old, was := before[s]; !was || !old.At.Equal(hold.At) {
			h.Log.LogAttrs(ctx, slog.LevelInfo, "paused by an operator", hold.attrs()...)
		}
	}
	for s, hold := range before {
		if _, is := now[s]; !is {
			attrs := hold.attrs()
			if end := over[s]; end.At.Equal(hold.At) {
				attrs = append(attrs, slog.String("ended_by", end.endedBy))
			}
			h.Log.LogAttrs(ctx, slog.LevelInfo, "an operator's pause is over", attrs...)
		}
	}
}

// attrs tell of the hold in the log.
func (h *Hold) attrs() []slog.Attr {
	var attrs []slog.Attr
	for _, field := range []struct{ name, value string }{
		{"app", h.App}, {"platform", string(h.Platform)}, {"category", h.Category}, {"by", h.By}, {"reason", h.Reason},
	} {
		if field.value != "" {
			attrs = append(attrs, slog.String(field.name, field.value))
		}
	}
	if !h.Until.IsZero() {
		attrs = append(attrs, slog.Time("until", h.Until))
	}
	return attrs
}

// remember notes what operators' holds keep of the delivery, so that it comes
// back when they end, and with it those who have come forward by what it gave back:
// asynq would bring them for their old slots.
func (h *handler) remember(ctx context.Context, d *delivery, moved []throttle.Booking) {
	var jobs []heldJob
	noted := map[string]bool{}
	for i := range d.outcomes {
		hold := d.outcomes[i].hold
		if hold == nil || noted[hold.selector().field()] {
			continue
		}
		noted[hold.selector().field()] = true
		if jobs == nil {
			jobs = append(h.cameForward(ctx, moved), heldJob{d.queue, d.ID})
		}
		if err := h.holds.keep(ctx, hold.selector().field(), d.accepted, jobs...); err != nil {
			h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "a paused notification comes back late", slog.String("id", d.ID), slog.Any("error", err))
		}
	}
}

// cameForward are the jobs of the first of the bookings that it is worth to wake for.
func (h *handler) cameForward(ctx context.Context, moved []throttle.Booking) (jobs []heldJob) {
	moved = moved[:min(len(moved), wakeMost)]
	ids := make([]string, len(moved))
	for i, b := range moved {
		ids[i] = b.ID
	}
	old, err := h.Records.LastDeferrals(ctx, ids)
	if err != nil {
		h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "those behind a paused notification come for their old slots", slog.Any("error", err))
		return nil
	}
	for _, b := range moved {
		if old[b.ID].Until.Sub(b.Slot) >= littleGain {
			jobs = append(jobs, heldJob{id: b.ID})
		}
	}
	return jobs
}

// release has the jobs come back of each hold that is not in force any more.
func (h *handler) release(ctx context.Context, holding []string) {
	inForce := map[string]bool{}
	for s := range maps.Keys(*h.holding.Load()) {
		inForce[s.field()] = true
	}
	for _, selector := range holding {
		if inForce[selector] {
			continue
		}
		if _, under := h.releasing.LoadOrStore(selector, true); under {
			continue
		}
		h.side.Go(func() {
			defer h.releasing.Delete(selector)
			if err := h.releaseAll(ctx, selector); err != nil && ctx.Err() == nil {
				h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "what was paused comes back late", slog.Any("error", err))
			}
		})
	}
}

const (
	// releaseMost is how many jobs come back at once.
	releaseMost = 200
	// The next ones wait until so few are pending on their queue, for a while at
	// most: what was not paused is not to stand behind all that was.
	pendingMost   = 1000
	releasePause  = 25 * time.Millisecond
	releasePauses = 20
)

// releaseAll has the jobs come back that the hold keeps. What is not on the
// queue yet, or not woken for an error, is taken again.
func (h *handler) releaseAll(ctx context.Context, selector string) error {
	for {
		jobs, err := h.holds.take(ctx, selector, releaseMost)
		if err != nil || len(jobs) == 0 {
			return err
		}
		byQueue := map[string][]heldJob{}
		for _, job := range jobs {
			if job.queue != "" {
				byQueue[job.queue] = append(byQueue[job.queue], job)
				continue
			}
			for queue := range push.Queues() {
				byQueue[queue] = append(byQueue[queue], job)
			}
		}
		var awake []string
		for queue, jobs := range byQueue {
			ids := make([]string, len(jobs))
			for i, job := range jobs {
				ids[i] = job.id
			}
			inHand, err := h.control.inspector.WakeAll(ctx, queue, ids)
			if awake = append(awake, inHand...); err != nil {
				return err
			}
		}
		woken := slices.DeleteFunc(jobs, func(job heldJob) bool { return slices.Contains(awake, job.id) })
		if err := h.holds.woken(ctx, selector, woken); err != nil {
			return err
		}
		for queue := range byQueue {
			if err := h.drained(ctx, queue); err != nil {
				return err
			}
		}
	}
}

// drained waits until the queue is short, for a while at most.
func (h *handler) drained(ctx context.Context, queue string) error {
	for range releasePauses {
		pending, err := h.control.inspector.Due(ctx, queue)
		if err != nil || pending < pendingMost {
			return err
		}
		if err := clock.Sleep(ctx, releasePause); err != nil {
			return err
		}
	}
	return nil
}
