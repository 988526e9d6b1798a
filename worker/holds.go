package worker

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

// holds are the operators' pauses and the closed routes. What they keep is parked on the queue.
type holds struct {
	*Options
	routes *route.Routes
	pauses *pause.Store

	inForce atomic.Pointer[pause.InForce] // as it was read last
}

// paused reports whether the operator's pause with that selector is in force.
func (h *holds) paused(selector string) bool { return !h.inForce.Load().Over(time.Now(), selector) }

// operator returns the operator's pause of the delivery's target; nil for none.
func (h *holds) operator(d *delivery, i int, now time.Time) *pause.Pause {
	return h.inForce.Load().On(now, d.App, d.Targets[i].Service(), d.Category)
}

// keep marks the targets whose route is closed, by trouble or by an operator, and reports
// whether all that are still open wait for theirs.
func (h *holds) keep(d *delivery) bool {
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
		if o.skip.some() {
			kept++
		} else {
			free++
		}
	}
	return kept > 0 && free == 0
}

// pollEvery is the interval at which a worker reads what others have done: pauses, and
// notifications that were taken from the queue. An operator expects a change within a second.
const pollEvery = 500 * time.Millisecond

// follow has this worker keep the pauses that others have begun, operators
// among them, until ctx ends.
func (h *holds) follow(ctx context.Context) {
	away := clock.Trouble{Log: h.RedisLog, Begins: "the pauses cannot be read: those that others begin or end are not known", Ends: "the pauses can be read again"}
	clock.Every(ctx, pollEvery, func() { away.Failing(ctx, h.read(ctx)) })
}

// read takes over the pauses in force.
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

// logPauses tells of the operators' pauses that have begun and ended, and once of each
// entry that cannot be read.
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
		case p.Until.IsZero() || time.Until(p.Until) > time.Minute: // nobody has ended it, and clocks differ less
			h.Log.LogAttrs(ctx, slog.LevelWarn, "an operator's pause is gone from Redis before its end: begin it again", attrs...)
		default:
			h.Log.LogAttrs(ctx, slog.LevelInfo, "an operator's pause is over", attrs...)
		}
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
