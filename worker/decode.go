package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/route"
)

// A delivery is a notification on its way.
type delivery struct {
	*push.Notification
	accepted time.Time
	back     time.Time // when it went back to the queue last; zero at the first visit
	slot     time.Time // as it was told last, by this machine's clock; zero when that is not known
	job      []byte
	queue    string
	// visits is how often asynq has counted a failure of the job: an attempt that
	// is to be repeated, or a worker that crashed with it.
	visits int
	replay bool
	term   *queue.Term // in which the job was pulled
	// attempts and first are what the record tells of earlier attempts.
	attempts int
	first    time.Time
	slotted  bool              // it has waited here for its first slot
	held     bool              // since it got its slot something else than a limit has kept it
	routes   []*route.Route    // of each target; nil where there is none
	outcomes []outcome         // of each target
	needs    []*route.Bulkhead // of the routes that are to be taken
	inside   []*route.Bulkhead // those where it has a place
	scopes   []throttle.Scope  // by which its admission was asked for last
	turn     *turn             // in its line; nil while it waits for no decision
	admitted bool              // that one was granted, in this visit
	ahead    time.Duration     // how far ahead of its instant it may be let through

	throughput *meter.Pool // of its category; nil for none
	metered    bool        // a push to one of its targets costs a unit of something
}

// due is when the notification could be sent at first.
func (d *delivery) due() time.Time {
	if d.NotBefore.After(d.accepted) {
		return d.NotBefore
	}
	return d.accepted
}

func (d *delivery) expired(now time.Time) bool {
	return !d.ExpiresAt.IsZero() && !now.Before(d.ExpiresAt)
}

// decode reads the job.
func (h *handler) decode(job *queue.Job) (*delivery, error) {
	decoded, err := push.Decode(job.Payload)
	if err != nil {
		return nil, err
	}
	if job.ID != decoded.Notification.ID {
		return nil, &asynqwire.MalformedError{Reason: asynqwire.MalformedNotification, Err: errors.New("the task has another ID than its notification")}
	}
	d := &delivery{
		Notification: decoded.Notification, accepted: decoded.AcceptedAt, back: job.Back, slot: job.Last.Wanted, job: job.Payload, queue: job.Queue, visits: job.Retries, term: job.Term,
		replay:   decoded.Replay,
		outcomes: make([]outcome, len(decoded.Notification.Targets)),
		held:     job.Last.Why != "" && job.Last.Why != queue.Deferred,
	}
	if job.Back.IsZero() {
		h.Observer.Handled(d.waited(time.Now()))
	}
	return d, nil
}

// waited is how long the job has been due on the queue: since it was accepted,
// or went back to it, in whole seconds.
func (d *delivery) waited(now time.Time) time.Duration {
	since := d.back
	if since.IsZero() {
		since = d.due()
	}
	return max(0, now.Sub(since))
}

// setAside keeps a job that is no notification as a dead letter.
func (h *handler) setAside(ctx context.Context, job *queue.Job, cause error) error {
	reason := string(asynqwire.MalformedNotification)
	var malformed *asynqwire.MalformedError
	if errors.As(cause, &malformed) {
		reason = string(malformed.Reason)
	}
	letter := &ledger.Letter{
		ID: job.ID, State: ledger.Malformed, Reason: reason, Attempts: job.Retries, Error: cause.Error(),
		At: time.Now().UTC(), Queue: job.Queue, Job: job.Payload,
	}
	if err := h.Records.SetAside(ctx, letter); err != nil {
		return &queue.Return{Why: queue.Failed, Detail: err.Error(), After: queue.Again}
	}
	h.repeats.Tell(ctx, h.Log, slog.LevelWarn, "job set aside", []slog.Attr{slog.String("reason", reason)}, slog.String("task", job.ID), slog.String("queue", job.Queue))
	h.Observer.Ended(letter.State)
	h.traceEnd(ctx, letter.State)
	return nil
}

// loadRecord takes up what earlier visits have left, and reports whether this one is
// over with that. A first visit has nothing to look up.
func (h *handler) loadRecord(ctx context.Context, d *delivery) (to disposition, over bool) {
	if d.visits == 0 && !d.replay {
		return to, false
	}
	if h.queue.Settling(d.ID) {
		return to, true // it is settled when asynq is done with this job
	}
	if h.unrecorded.take(d) {
		h.findRoutes(d)
		to = h.conclude(d)
		to.attempt, to.counted = true, true
		return to, true
	}
	record, err := h.Records.Lookup(ctx, d.ID)
	switch {
	case errors.Is(err, push.ErrUnknownID):
		if err := h.Records.Arrive(ctx, d.ID, d.queue, ledger.Facts{App: d.App, User: d.User, Category: d.Category, NotBefore: d.NotBefore, ExpiresAt: d.ExpiresAt}); err != nil {
			return later(err), true
		}
	case err != nil:
		return later(err), true
	case record.State.Ended():
		return to, true
	default:
		d.attempts, d.first = record.Attempts, record.FirstAttempt
		for i, o := range record.Outcomes {
			if i < len(d.outcomes) {
				d.outcomes[i] = recorded(o)
			}
		}
	}
	d.doubt()
	if lost := d.visits - d.attempts; lost > h.Attempts { // it crashes its workers, or cannot be settled
		to = d.cutShort(push.Exhausted, fmt.Sprintf("what became of %d attempts is not recorded", lost))
		to.reason = string(providers.Unrecorded)
		return to, true
	}
	return to, false
}

// doubt marks what a visit may have sent whose end is not recorded: its worker
// has crashed, or could not tell.
func (d *delivery) doubt() {
	if d.visits <= d.attempts {
		return
	}
	for i := range d.outcomes {
		if o := &d.outcomes[i]; o.open() {
			o.Ambiguous = true
		}
	}
}

// findRoutes finds the route of each target. A target without one is rejected; it
// reports whether any is left.
func (h *handler) findRoutes(d *delivery) bool {
	app := h.routes.Of(d.App)
	d.routes = make([]*route.Route, len(d.Targets))
	d.throughput = h.routes.Throughput(d.App, d.Category)
	d.metered = d.throughput != nil
	refused := h.refuses(d)
	some := false
	for i, target := range d.Targets {
		if !d.outcomes[i].open() { // settled by an earlier visit
			continue
		}
		switch r, ok := app[target.Platform]; {
		case refused:
			d.reject(i, providers.UnknownCategory, errUnknownCategory)
		case ok:
			d.routes[i], some = r, true
			d.metered = d.metered || r.Quota != nil
		case app != nil:
			d.reject(i, providers.NoProvider, errNoProvider)
		default:
			d.reject(i, providers.UnknownApp, errUnknownApp)
		}
	}
	return some
}

// reject rejects a target that there is no route for, or none that it may take.
func (d *delivery) reject(i int, reason providers.Reason, err error) {
	d.outcomes[i] = outcome{Outcome: providers.Outcome{
		Kind: providers.Rejected, Reason: reason, Concerns: providers.ConcernsMessage, Ambiguous: d.outcomes[i].Ambiguous, Err: err,
	}}
}

var (
	errUnknownApp      = errors.New("the configuration has no such app")
	errNoProvider      = errors.New("the app has no provider for the target's platform")
	errUnknownCategory = errors.New("the configuration has no such category, and limits.unknown_category refuses it")
)

// refuses looks at the category: one that the configuration does not have may be
// mistyped, and is told of or refused.
func (h *handler) refuses(d *delivery) bool {
	unknown := h.Limits.Unknown(d.Category)
	if unknown == limits.AllowUnknown {
		return false
	}
	if d.back.IsZero() { // its first visit
		h.Observer.UnknownCategory()
		if h.Limits.FirstUnknown(d.Category) {
			h.Log.Warn("notifications are of a category that the configuration does not have: it has no limits of its own",
				"category", d.Category, "app", d.App, "unknown_category", string(unknown))
		}
	}
	return unknown == limits.RefuseUnknown
}
