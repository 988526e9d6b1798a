package worker

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/pushpace/pushpace/push"
)

// ended counts the end of a delivery, and at the level debug tells of it.
func (h *handler) ended(ctx context.Context, d *delivery, state push.State) {
	h.Observer.Ended(state)
	if !h.Log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	var platforms []push.Platform
	for i := range d.Targets {
		if p := d.Targets[i].Platform; !slices.Contains(platforms, p) {
			platforms = append(platforms, p)
		}
	}
	h.Log.LogAttrs(ctx, slog.LevelDebug, "notification ended", slog.String("id", d.ID), slog.String("app", d.App),
		slog.Any("platforms", platforms), slog.String("outcome", string(state)), slog.Int64("ms", time.Since(d.accepted).Milliseconds()))
}

// endedByAnother is ended for a notification that was taken from the queue: by a
// newer one, or a cancel.
func (h *handler) endedByAnother(ctx context.Context, t *push.Taken) {
	h.Observer.Ended(t.State)
	h.Log.LogAttrs(ctx, slog.LevelDebug, "notification ended", slog.String("id", t.ID), slog.String("app", t.App), slog.String("outcome", string(t.State)))
}
