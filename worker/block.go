package worker

import (
	"context"
	"log/slog"
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

// blockedFor is how long the delivery waits for the first of its closed routes.
func (h *handler) blockedFor(d *delivery) time.Duration {
	now := time.Now()
	var first *route.Route
	var least time.Duration
	byOperator := false
	for i, r := range d.routes {
		o := &d.outcomes[i]
		if !o.blocked {
			continue
		}
		left := min(r.Left(now), longestBlock)
		if r.Alone(now) {
			left = min(left, aloneBlock)
		}
		if o.pausedBy != nil {
			left = max(left, min(o.pausedBy.Left(now), longestOperatorBlock))
		}
		if first == nil || left < least {
			first, least, byOperator = r, left, o.pausedBy != nil
		}
	}
	switch {
	case first == nil:
		return 0
	case !byOperator:
		return first.Blocked.Next(d.queue, now, least)
	}
	wait := h.pausedReturns.Next(d.queue, now, least)
	if !d.ExpiresAt.IsZero() { // the queue's times are whole seconds
		wait = min(wait, max(0, d.ExpiresAt.Sub(now))+time.Second)
	}
	return wait
}

const (
	// longestBlock is after how long a blocked notification looks again whether its
	// route is still closed.
	longestBlock = 30 * time.Second
	// aloneBlock is the same for a pause that this worker alone keeps to: another
	// one may send it.
	aloneBlock = 2 * time.Second
	// longestOperatorBlock is the same for an operator's pause, whose end wakes
	// what it keeps: it may last for days, and keep much.
	longestOperatorBlock = 5 * time.Minute
)

// rememberPaused notes what operators' pauses keep of the delivery, so that it comes
// back when they end, and with it those that have come forward by what it gave back:
// asynq would bring them for their old slots.
func (h *handler) rememberPaused(ctx context.Context, d *delivery, moved []throttle.Booking) {
	var jobs []pause.Job
	noted := map[string]bool{}
	for i := range d.outcomes {
		by := d.outcomes[i].pausedBy
		if by == nil || noted[by.Selector()] {
			continue
		}
		noted[by.Selector()] = true
		if jobs == nil {
			gained, err := h.control.Gained(ctx, moved[:min(len(moved), wakeMost)])
			if err != nil {
				h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "those behind a paused notification come for their old slots", slog.Any("error", err))
			}
			for _, id := range gained {
				jobs = append(jobs, pause.Job{ID: id})
			}
			jobs = append(jobs, pause.Job{Queue: d.queue, ID: d.ID})
		}
		if err := h.pauses.AddJobs(ctx, by.Selector(), d.accepted, jobs...); err != nil {
			h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "a paused notification resumes late", slog.String("id", d.ID), slog.Any("error", err))
		}
	}
}

// followPauses has this worker keep the pauses that others have begun, operators
// among them, until ctx ends.
func (h *handler) followPauses(ctx context.Context) {
	away := clock.Trouble{Log: h.RedisLog, Begins: "the pauses cannot be read: those that others begin or end are not known", Ends: "the pauses can be read again"}
	clock.Every(ctx, h.times.poll, func() { away.Failing(ctx, h.readPauses(ctx)) })
}

// readPauses takes over what is in force, and has come back what is not paused any
// more.
func (h *handler) readPauses(ctx context.Context) error {
	asked := time.Now()
	h.routes.Renew()
	in, err := h.pauses.Read(ctx)
	if err != nil {
		return err
	}
	h.routes.Apply(ctx, in, asked)
	before := h.inForce.Swap(in)
	h.logPauses(ctx, in, before)
	for _, selector := range in.Over() {
		if _, under := h.resuming.LoadOrStore(selector, true); under {
			continue
		}
		h.side.Go(func() {
			defer h.resuming.Delete(selector)
			if err := h.control.WakePaused(ctx, selector); err != nil && ctx.Err() == nil {
				h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "what was paused resumes late", slog.Any("error", err))
			}
		})
	}
	return nil
}

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
