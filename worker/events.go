package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
)

// events report the ends of notifications to the metrics and the log.
type events struct{ *Options }

// ended counts the end of a delivery, and at the level debug logs it.
func (e *events) ended(ctx context.Context, d *delivery, c *disposition) {
	e.Observer.Ended(c.state)
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
	e.Log.LogAttrs(ctx, slog.LevelDebug, "notification ended", slog.String("id", t.ID), slog.String("app", t.App), slog.String("outcome", string(t.State)))
}
