package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/push"

	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/watch"
)

// events tell the metrics, the log and those who watch what becomes of notifications.
type events struct {
	*Options
	feed  *watch.Feed
	holds *holds
}

// ended counts the end of a delivery, and at the level debug logs it.
func (e *events) ended(ctx context.Context, d *delivery, c *disposition) {
	e.Observer.Ended(c.state)
	e.show(d, c)
	if !e.Log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	e.Log.LogAttrs(ctx, slog.LevelDebug, "notification ended", slog.String("id", d.ID), slog.String("app", d.App),
		slog.Any("platforms", d.platforms()), slog.String("outcome", string(c.state)), slog.Int64("ms", time.Since(d.accepted).Milliseconds()))
}

// endedElsewhere is ended for a notification that was taken from the queue: by a
// newer one, or a cancel.
func (e *events) endedElsewhere(ctx context.Context, t *ledger.Taken) {
	e.Observer.Ended(t.State)
	if e.feed.Watched() {
		e.feed.Tell(watch.Event{At: time.Now().UTC(), State: t.State, ID: t.ID, App: t.App, User: t.User, Category: t.Category})
	}
	e.Log.LogAttrs(ctx, slog.LevelDebug, "notification ended", slog.String("id", t.ID), slog.String("app", t.App), slog.String("outcome", string(t.State)))
}

// show has those who watch, if anybody does, know what becomes of the delivery.
func (e *events) show(d *delivery, to *disposition) {
	if !e.feed.Watched() {
		return
	}
	event := watch.Event{
		At: time.Now().UTC(), State: to.state, Reason: to.reason, ID: d.ID, App: d.App, User: d.User,
		Category: d.Category, Priority: d.Priority, Platforms: d.platforms(),
	}
	if to.state == push.Waiting {
		event.For = string(control.ReturnedFor(event.At, to.back, d.Notification, e.holds.inForce.Load().Operators))
		if !to.kept.woken() {
			event.Until = event.At.Add(to.back.After)
		}
		if p := &to.deferral; p.Rule != "" {
			event.Reason = p.Scope + " " + p.Rule
		}
	}
	e.feed.Tell(event)
}
