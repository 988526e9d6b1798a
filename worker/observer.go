package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/route"
	"github.com/pushpace/pushpace/worker/webhook"
)

// An Observer receives events for metrics. Its methods must be safe for concurrent use and return
// at once.
type Observer interface {
	route.Observer
	webhook.Observer
	// Handled reports the first visit of a notification. The age is the time since its acceptance, or
	// since its NotBefore if that was later. It is never negative, even if the accepting machine's clock
	// differs.
	Handled(age time.Duration)
	// Checked reports the duration of a limiter check.
	Checked(took time.Duration)
	// Deferred reports that a limit deferred a notification.
	Deferred(app, category string, d throttle.Decision)
	// Paced reports how long after its slot a notification was admitted. It is not called if, since the
	// notification got that slot, it was also delayed by a provider, a quota, a pause, the limits' Redis
	// or a retry.
	Paced(lateness time.Duration)
	// Attempted reports a send to one target. The service is one of push.Services.
	Attempted(app string, service push.Platform, o providers.Outcome, took time.Duration)
	// UnknownCategory reports a notification of a category that is not configured, unless
	// unknown categories are allowed.
	UnknownCategory()
	// UnknownTimeZone reports a job with an unknown time zone, which is treated like a job without a time
	// zone.
	UnknownTimeZone()
	// Ended reports the end of a notification; store.Malformed stands for a job that was set aside.
	Ended(push.State)
}

// NopObserver is an Observer that does nothing. Embed it to implement only some methods.
type NopObserver struct{}

func (NopObserver) Handled(time.Duration)                                             {}
func (NopObserver) Checked(time.Duration)                                             {}
func (NopObserver) Deferred(string, string, throttle.Decision)                        {}
func (NopObserver) Paced(time.Duration)                                               {}
func (NopObserver) Attempted(string, push.Platform, providers.Outcome, time.Duration) {}
func (NopObserver) Closed(string, push.Platform, providers.Reason)                    {}
func (NopObserver) UnknownCategory()                                                  {}
func (NopObserver) UnknownTimeZone()                                                  {}
func (NopObserver) Posted(string, webhook.Kind, bool)                                 {}
func (NopObserver) Ended(push.State)                                                  {}

// events report the ends of notifications to metrics and log.
type events struct{ *Options }

// ended counts the end of a delivery, and logs it at the level debug.
func (e *events) ended(ctx context.Context, d *delivery, state push.State) {
	e.Observer.Ended(state)
	if !e.Log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	e.Log.LogAttrs(ctx, slog.LevelDebug, "notification ended", slog.String("id", d.ID), slog.String("app", d.App),
		slog.Any("platforms", d.platforms()), slog.String("outcome", string(state)), slog.Int64("ms", time.Since(d.accepted).Milliseconds()))
}

// endedElsewhere does the same as ended, for a notification that a cancel, a mute or a newer
// notification has taken from the queue.
func (e *events) endedElsewhere(ctx context.Context, t *store.Taken) {
	e.Observer.Ended(t.State)
	e.Log.LogAttrs(ctx, slog.LevelDebug, "notification ended", slog.String("id", t.ID), slog.String("app", t.App), slog.String("outcome", string(t.State)))
}
