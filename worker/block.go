package worker

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

// pausedBy returns the operator's pause of the delivery's target; nil for none.
func (h *handler) pausedBy(d *delivery, i int, now time.Time) *pause.Pause {
	return h.inForce.Load().On(now, d.App, d.Targets[i].Platform, d.Category)
}

// blocked marks the targets whose route is closed, by trouble or by an operator, and
// reports whether all that are still open wait for theirs.
func (h *handler) blocked(d *delivery) bool {
	now := time.Now()
	blocked, free := 0, 0
	for i, r := range d.routes {
		o := &d.outcomes[i]
		if r == nil || !o.open() {
			continue
		}
		o.pausedBy = h.pausedBy(d, i, now)
		if o.blocked = o.pausedBy != nil || r.Left(now) > 0; o.blocked {
			blocked++
		} else {
			free++
		}
	}
	return blocked > 0 && free == 0
}

// bulkheads are those that the delivery has to pass, each once, in an order that is
// the same for all.
func (d *delivery) bulkheads() []*route.Bulkhead {
	var needed []*route.Bulkhead
	for _, platform := range []push.Platform{push.APNs, push.FCM} {
		for i, r := range d.routes {
			if r != nil && r.Platform == platform && d.outcomes[i].due() {
				needed = append(needed, r.Bulkhead)
				break
			}
		}
	}
	return needed
}

// blockedFor is after how long the delivery looks by itself whether its routes are still
// closed: their opening wakes it.
func (h *handler) blockedFor(d *delivery) time.Duration {
	now := time.Now()
	return d.orExpired(h.looks.Next(d.queue, now, longestBlock), now)
}

// orExpired is that time, or less when the delivery expires before.
func (d *delivery) orExpired(wait time.Duration, now time.Time) time.Duration {
	if !d.ExpiresAt.IsZero() { // the queue's times are whole seconds
		wait = min(wait, max(0, d.ExpiresAt.Sub(now))+time.Second)
	}
	return wait
}

// longestBlock is for as long as no more are blocked than look one after the other in
// that time: a pause may last for days, and keep much.
const longestBlock = 5 * time.Minute

// unnotedBlock is after how long one looks again that nothing will wake.
const unnotedBlock = 10 * time.Second

// rememberBlocked notes what closed routes and operators' pauses keep of the delivery, so
// that it comes back when they are over. With an operator's pause those come back as well
// that have come forward by what it gave back: asynq would bring them for their old slots.
// It reports whether all is noted.
func (h *handler) rememberBlocked(ctx context.Context, d *delivery, moved []throttle.Booking) bool {
	noted, all := map[string]bool{}, true
	for i := range d.outcomes {
		o := &d.outcomes[i]
		if !o.blocked || o.lacks != nil || o.guarded != nil {
			continue
		}
		by := d.routes[i].Name()
		if o.pausedBy != nil {
			by = o.pausedBy.Selector()
		}
		if noted[by] {
			continue
		}
		noted[by] = true
		jobs := []pause.Job{{Queue: d.queue, ID: d.ID}}
		if o.pausedBy != nil && len(moved) > 0 {
			gained, err := h.control.Gained(ctx, moved[:min(len(moved), wakeMost)])
			if err != nil {
				h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "those behind a paused notification come for their old slots", slog.Any("error", err))
			}
			for _, id := range gained {
				jobs = append(jobs, pause.Job{ID: id})
			}
			moved = nil // once
		}
		if err := h.pauses.AddJobs(ctx, by, d.Priority, d.accepted, jobs...); err != nil {
			h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "a paused notification resumes late", slog.String("id", d.ID), slog.Any("error", err))
			all = false
		}
	}
	return all
}

// pollEvery lies between two looks at the shared pauses.
const pollEvery = 500 * time.Millisecond

// followPauses has this worker keep the pauses that others have begun, operators
// among them, until ctx ends.
func (h *handler) followPauses(ctx context.Context) {
	away := clock.Trouble{Log: h.RedisLog, Begins: "the pauses cannot be read: those that others begin or end are not known", Ends: "the pauses can be read again"}
	clock.Every(ctx, pollEvery, func() { away.Failing(ctx, h.readPauses(ctx)) })
}

// readPauses takes over the pauses in force, and wakes the jobs of those that are over.
func (h *handler) readPauses(ctx context.Context) error {
	asked := time.Now()
	h.routes.Renew()
	in, err := h.pauses.Tell(ctx, h.feed.Take())
	if err != nil {
		return err
	}
	h.feed.Watch(in.Watched)
	h.routes.Apply(ctx, in, asked)
	before := h.inForce.Swap(in)
	h.logPauses(ctx, in, before)
	for _, selector := range in.Over() {
		h.resume(ctx, selector, func() error {
			_, err := h.control.WakeSome(ctx, selector, math.MaxInt, pause.First)
			return err
		})
	}
	for r := range h.routes.All() {
		if _, some := in.Held[r.Name()]; some {
			h.resume(ctx, r.Name(), func() error { return h.returnHeld(ctx, r) })
		}
	}
	return nil
}

// resume has wake run, unless it does, for what the selector or route of that name keeps.
func (h *handler) resume(ctx context.Context, name string, wake func() error) {
	if _, under := h.resuming.LoadOrStore(name, true); under {
		return
	}
	h.side.Go(func() {
		defer h.resuming.Delete(name)
		if err := wake(); err != nil && ctx.Err() == nil {
			h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "what was paused resumes late", slog.Any("error", err))
		}
	})
}

// returnHeld has what the route holds come back at its pace, the critical ones first,
// until there is nothing left. While it is closed, one is to show from time to time
// whether the provider works.
func (h *handler) returnHeld(ctx context.Context, r *route.Route) error {
	r.Returns()
	for {
		n, toSee := r.Returning(time.Now())
		which := pause.First
		if toSee {
			which = pause.Any
		}
		if n > 0 {
			some, err := h.control.WakeSome(ctx, r.Name(), n, which)
			if err != nil || !some {
				return err
			}
		}
		if err := clock.Sleep(ctx, returnTick); err != nil {
			return err
		}
	}
}

// returnTick is how often what was held is woken: so many at once as a process takes up
// between two.
const returnTick = 40 * time.Millisecond

// logPauses tells of the operators' pauses that have begun and ended, and once of each
// entry that cannot be read.
func (h *handler) logPauses(ctx context.Context, in, before *pause.InForce) {
	begun, over := in.Since(before)
	for _, p := range begun {
		h.Log.LogAttrs(ctx, slog.LevelInfo, "paused by an operator", pauseAttrs(&p)...)
	}
	for p, by := range over {
		attrs := pauseAttrs(p)
		if by != "" {
			attrs = append(attrs, slog.String("ended_by", by))
		}
		h.Log.LogAttrs(ctx, slog.LevelInfo, "an operator's pause is over", attrs...)
	}
	for _, field := range in.Unread {
		if before == nil || !slices.Contains(before.Unread, field) {
			h.Log.LogAttrs(ctx, slog.LevelWarn, "a pause cannot be read, and has no effect", slog.String("entry", field[:min(len(field), route.LongestCause)]))
		}
	}
}

func pauseAttrs(p *pause.Pause) []slog.Attr {
	var attrs []slog.Attr
	for _, field := range []struct{ name, value string }{
		{"app", p.App}, {"platform", string(p.Platform)}, {"category", p.Category}, {"by", p.By}, {"reason", p.Reason},
	} {
		if field.value != "" {
			attrs = append(attrs, slog.String(field.name, field.value))
		}
	}
	if !p.Until.IsZero() {
		attrs = append(attrs, slog.Time("until", p.Until))
	}
	return attrs
}
