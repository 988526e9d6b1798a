package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/base/zone"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/route"
)

// A delivery is a notification during a visit, with the state of that visit.
type delivery struct {
	*push.Notification
	accepted   time.Time
	zone       *time.Location // its time_zone; nil if that is empty or unknown
	returnedAt time.Time      // when it last returned to the queue; zero at the first visit
	job        []byte
	queue      string
	hand       string // the job's claim: see store.Job
	// failures counts the job's failures: attempts that must be repeated, and workers that
	// crashed with it.
	failures  int
	replay    bool
	hasWaited bool               // an earlier visit was deferred or blocked: see waitedBefore
	term      term               // the *queue.Term in which the job was pulled
	at        *queue.Server      // the server that pulled the job
	arrived   func()             // ends the pull's reservation on its route
	digest    *push.Notification // the notification as accepted; nil without a digest, or if critical
	carried   []string           // IDs of the notifications that have joined its digest
	// attempts counts the attempts, and first is the time of the first. excused is how many do not count
	// against Options.Attempts.
	attempts   int
	excused    int
	first      time.Time
	hasAttempt bool // an attempt of this visit or an earlier one is to be recorded
	counted    bool // the earlier visit has counted that attempt as a failure

	routes     []*route.Route // of each target; nil for a target without a route
	outcomes   []outcome      // of each target
	throughput *meter.Pool    // of its category; nil if unlimited
	metered    bool           // a push to one of its targets costs a quota unit

	needs       []*route.Bulkhead // the bulkheads of the due targets' routes
	expected    bool              // it counts as on its way to needs
	permits     []*route.Bulkhead // the bulkheads of which it holds a permit
	scopes      []throttle.Scope  // of its last limiter check
	turn        *turn             // in its line; nil after a limiter check
	asked       bool              // the limiter has answered about it in this visit
	isSuccessor bool              // it replaced an older notification with its collapse key
	predecessor string            // ID of the notification from which it takes over a slot; "" for none
	delayed     bool              // something other than a limit has delayed it since it got its slot
}

// A term knows whether the worker still owns the jobs that it pulled in the term.
type term interface {
	Valid() bool
	Lost(ctx context.Context) bool
}

// An outcome is the state of one target.
type outcome struct {
	providers.Outcome
	sent    bool      // this visit sent a push to it
	excused bool      // it was sent in this visit, and its route was in trouble
	skip    skip      // why it is not sent to in this visit
	until   time.Time // when its units expire; zero without units
	counted bool      // its device's limit counts a push that has not left
}

func decode(job *queue.Job) (*delivery, error) {
	decoded, err := push.Decode(job.Payload)
	if err != nil {
		return nil, err
	}
	if job.ID != decoded.Notification.ID {
		return nil, &store.MalformedError{Reason: store.MalformedNotification, Err: errors.New("the task's ID differs from its notification's")}
	}
	in, _ := zone.Load(decoded.Notification.TimeZone) // see knowsZone
	d := &delivery{
		Notification: decoded.Notification, accepted: decoded.AcceptedAt, zone: in, returnedAt: job.Back, first: job.Last.First, job: job.Payload, queue: job.Queue, hand: job.Claim, failures: job.Failures, term: job.Term, at: job.At, arrived: job.Arrived,
		replay:   decoded.Replay,
		outcomes: make([]outcome, len(decoded.Notification.Targets)),
		delayed:  job.Parked || job.Last.Why != "" && job.Last.Why != store.Deferred,
	}
	d.hasWaited = d.waitedBefore(job.Last.Why)
	if d.Digest != nil && d.Priority != push.Critical {
		d.digest = d.Notification
	}
	return d, nil
}

// waitedBefore reports whether an earlier visit was deferred or blocked. A wait for NotBefore does not
// count, as it precedes the first limiter check. Such a wait began before NotBefore; the second of
// tolerance is for the clock of a different machine.
func (d *delivery) waitedBefore(why store.WaitReason) bool {
	early := why == store.Deferred && d.returnedAt.Before(d.NotBefore.Add(-time.Second))
	return why != "" && !early
}

// knowsZone logs a job with an unknown time zone, at its first visit. A program enqueued it without
// validation, or with newer zone data.
func (h *handler) knowsZone(ctx context.Context, d *delivery) {
	if d.TimeZone == "" || d.zone != nil || !d.returnedAt.IsZero() {
		return
	}
	h.Observer.UnknownTimeZone()
	h.repeats.Write(ctx, h.Log, slog.LevelWarn, "jobs have an unknown time zone: their quiet hours follow limits.time_zone",
		nil, slog.String("app", d.App), slog.String("id", d.ID), slog.String("time_zone", d.TimeZone))
}

// clock returns the zone of the user's quiet hours.
func (d *delivery) clock() *time.Location {
	if d.zone != nil {
		return d.zone
	}
	for i := range d.scopes {
		if in := d.scopes[i].Policy.Night.Zone; in != nil {
			return in
		}
	}
	return time.UTC
}

// open reports whether the target has no final outcome yet.
func (o *outcome) open() bool {
	return o.Kind == 0 || o.Kind == providers.Retry || o.Kind == providers.Misconfigured
}

// due reports whether this visit should send to the target.
func (o *outcome) due() bool { return o.open() && !o.skip.isSet() }

// expect counts the delivery as on its way to its bulkheads.
func (d *delivery) expect() {
	d.expected = true
	route.Expect(d.needs, d.Priority, 1)
}

// arrive undoes expect: the delivery has its permits, or does not need them in this visit.
func (d *delivery) arrive() {
	if d.expected {
		d.expected = false
		route.Expect(d.needs, d.Priority, -1)
	}
}

// release gives back the delivery's permits.
func (d *delivery) release() {
	route.Release(d.permits)
	d.permits = nil
}

// releaseOne gives back the delivery's permit of the bulkhead.
func (d *delivery) releaseOne(b *route.Bulkhead) {
	route.Release([]*route.Bulkhead{b})
	d.permits = slices.DeleteFunc(slices.Clone(d.permits), func(other *route.Bulkhead) bool { return other == b })
}

// releaseIdle gives back the permits of routes without a due target. The last permit stays.
func (d *delivery) releaseIdle() {
	due := d.bulkheads()
	for _, b := range d.permits {
		if len(d.permits) > 1 && !slices.Contains(due, b) {
			d.releaseOne(b)
		}
	}
}

// due returns the earliest time at which the notification may be sent.
func (d *delivery) due() time.Time {
	if d.NotBefore.After(d.accepted) {
		return d.NotBefore
	}
	return d.accepted
}

func (d *delivery) expired(now time.Time) bool {
	return !d.ExpiresAt.IsZero() && !now.Before(d.ExpiresAt)
}

// orExpired returns the wait, shortened to a little after the delivery's expiry: the worker of the next
// visit then sees that it has expired, even if its clock is behind.
func (d *delivery) orExpired(wait time.Duration, now time.Time) time.Duration {
	if d.ExpiresAt.IsZero() {
		return wait
	}
	return min(wait, max(0, d.ExpiresAt.Sub(now))+store.RetryDelay)
}

// waited returns how long the job has been on the queue: since it was first due, or since it last
// returned.
func (d *delivery) waited(now time.Time) time.Duration {
	since := d.returnedAt
	if since.IsZero() {
		since = d.due()
	}
	return max(0, now.Sub(since))
}

// sent reports whether this visit has sent to a target.
func (d *delivery) sent() bool {
	return slices.ContainsFunc(d.outcomes, func(o outcome) bool { return o.sent })
}

// used reports whether a provider has taken the notification, or may have.
func (d *delivery) used() bool {
	return slices.ContainsFunc(d.outcomes, func(o outcome) bool { return o.Kind == providers.Delivered || o.Ambiguous })
}

// platforms returns the targets' platforms, without duplicates.
func (d *delivery) platforms() (all []push.Platform) {
	for i := range d.Targets {
		if p := d.Targets[i].Platform; !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}
