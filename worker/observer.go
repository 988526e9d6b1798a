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

// An Observer is told what happens, for metrics. Its methods are called from
// many goroutines and must return at once.
type Observer interface {
	route.Observer
	webhook.Observer
	// Handled: a notification is in a worker's hands for the first time, so long
	// after it was accepted, or was due if it was to be sent later. The accepting
	// machine's clock is another one: it is never negative.
	Handled(age time.Duration)
	// Checked: the limiter was asked, and took so long.
	Checked(took time.Duration)
	// Deferred: a notification of that app and category was put off.
	Deferred(app, category string, d throttle.Decision)
	// Paced: a notification that a limit alone has held goes out, that much after its
	// slot. What something else has held since it got that slot is not told: a provider,
	// a quota, a pause, the limits' Redis, another attempt.
	Paced(lateness time.Duration)
	// Attempted: one target was sent to, which took so long. The service is one of
	// push.Services.
	Attempted(app string, service push.Platform, o providers.Outcome, took time.Duration)
	// UnknownCategory: a notification is of a category that the configuration does not
	// have, and it is not allowed without a word.
	UnknownCategory()
	// UnknownTimeZone: a job names a time zone that there is not, and the one of those that
	// name none is taken.
	UnknownTimeZone()
	// Ended: a notification has ended, or, as store.Malformed, a job was set aside.
	Ended(push.State)
}

// Nobody is an Observer that does nothing. Embed it to observe a part.
type Nobody struct{}

func (Nobody) Handled(time.Duration)                                             {}
func (Nobody) Checked(time.Duration)                                             {}
func (Nobody) Deferred(string, string, throttle.Decision)                        {}
func (Nobody) Paced(time.Duration)                                               {}
func (Nobody) Attempted(string, push.Platform, providers.Outcome, time.Duration) {}
func (Nobody) Closed(string, push.Platform, providers.Reason)                    {}
func (Nobody) UnknownCategory()                                                  {}
func (Nobody) UnknownTimeZone()                                                  {}
func (Nobody) Posted(string, webhook.Kind, bool)                                 {}
func (Nobody) Ended(push.State)                                                  {}

// events report the ends of notifications to the metrics and the log.
type events struct{ *Options }

// ended counts the end of a delivery, and at the level debug logs it.
func (e *events) ended(ctx context.Context, d *delivery, state push.State) {
	e.Observer.Ended(state)
	if !e.Log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	e.Log.LogAttrs(ctx, slog.LevelDebug, "notification ended", slog.String("id", d.ID), slog.String("app", d.App),
		slog.Any("platforms", d.platforms()), slog.String("outcome", string(state)), slog.Int64("ms", time.Since(d.accepted).Milliseconds()))
}

// endedElsewhere is ended for a notification that was taken from the queue: by a
// newer one, or a cancel.
func (e *events) endedElsewhere(ctx context.Context, t *store.Taken) {
	e.Observer.Ended(t.State)
	e.Log.LogAttrs(ctx, slog.LevelDebug, "notification ended", slog.String("id", t.ID), slog.String("app", t.App), slog.String("outcome", string(t.State)))
}
