package worker

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

// holds are the operators' pauses and the closed routes. Jobs that they block are parked on the queue.
type holds struct {
	*Options
	routes  *route.Routes
	pauses  *pause.Store
	control *control.Control

	inForce atomic.Pointer[pause.InForce] // the result of the last read
}

// paused reports whether the operator's pause with that selector is in force.
func (h *holds) paused(selector string) bool { return !h.inForce.Load().Over(time.Now(), selector) }

// operator returns the operator's pause that matches the delivery's target i; nil for none.
func (h *holds) operator(d *delivery, i int, now time.Time) *pause.Pause {
	return h.inForce.Load().On(now, d.App, d.Targets[i].Service(), d.Category)
}

// skipClosed skips the targets of closed or paused routes. It reports whether no target is left to send
// to.
func (h *holds) skipClosed(d *delivery) bool {
	now := time.Now()
	kept, free := 0, 0
	for i, r := range d.routes {
		o := &d.outcomes[i]
		if r == nil || !o.open() {
			continue
		}
		o.skip = skip{}
		if p := h.operator(d, i, now); p != nil {
			o.skip = skip{reason: pausedByOperator, pause: p}
		} else if r.Left(now) > 0 {
			o.skip = skip{reason: routeClosed}
		}
		if o.skip.isSet() {
			kept++
		} else {
			free++
		}
	}
	return kept > 0 && free == 0
}

// pollInterval is the interval between two reads of the pauses, and of the notifications that
// producers and operators have ended. An operator expects a change to apply within a second.
const pollInterval = 500 * time.Millisecond

// follow applies the pauses in Redis, of operators and of other workers, until ctx ends.
func (h *holds) follow(ctx context.Context) {
	away := clock.Trouble{Log: h.RedisLog, Begins: "this worker cannot read the pauses in Redis: changes by operators and other workers do not apply", Ends: "this worker reads the pauses in Redis again"}
	clock.Every(ctx, pollInterval, func() { away.Failing(ctx, h.read(ctx)) })
}

// read reads the pauses in force and applies them.
func (h *holds) read(ctx context.Context) error {
	asked := time.Now()
	h.routes.Renew()
	in, err := h.pauses.Read(ctx)
	if err != nil {
		return err
	}
	h.routes.Apply(ctx, in, asked)
	before := h.inForce.Swap(in)
	h.logPauses(ctx, in, before)
	return nil
}

// logPauses logs the operators' pauses that have begun and ended, and once each unreadable entry.
func (h *holds) logPauses(ctx context.Context, in, before *pause.InForce) {
	begun, over := in.Since(before)
	for _, p := range begun {
		h.Log.LogAttrs(ctx, slog.LevelInfo, "paused by an operator", pauseAttrs(&p)...)
	}
	for p, by := range over {
		attrs := pauseAttrs(p)
		switch {
		case by != "":
			h.Log.LogAttrs(ctx, slog.LevelInfo, "an operator's pause is over", append(attrs, slog.String("ended_by", by))...)
		case p.Until.IsZero() || time.Until(p.Until) > time.Minute: // not due to end: clocks differ by less
			h.Log.LogAttrs(ctx, slog.LevelWarn, "an operator's pause is gone from Redis before its end: begin it again", attrs...)
			h.control.NoteLoss(control.Loss{Pauses: 1})
		default:
			h.Log.LogAttrs(ctx, slog.LevelInfo, "an operator's pause is over", attrs...)
		}
	}
	for _, field := range in.Unread {
		if before == nil || !slices.Contains(before.Unread, field) {
			h.Log.LogAttrs(ctx, slog.LevelWarn, "this worker cannot read a pause in Redis, which has no effect", slog.String("entry", field[:min(len(field), route.LongestCause)]))
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
