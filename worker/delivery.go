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

// A delivery is a notification on its way.
type delivery struct {
	*push.Notification
	accepted time.Time
	zone     *time.Location // by whose clocks its user lives; nil for that of those who name none
	back     time.Time      // when it went back to the queue last; zero at the first visit
	job      []byte
	queue    string
	hand     string // that has the job: see store.Job
	// failures is how often a failure of the job was counted: an attempt that
	// is to be repeated, or a worker that crashed with it.
	failures int
	replay   bool
	known    bool               // an earlier visit has put it off or found it held: see returned
	term     term               // in which the job was pulled: *queue.Term
	at       *queue.Server      // that has pulled it
	arrived  func()             // takes it off what is on its way to its route
	digest   *push.Notification // as it was accepted, with a digest; nil for one without, or critical
	carried  []string           // IDs of those that have joined its digest
	// attempts counts the attempts, and first is the time of the first; excused of them
	// failed because a route was in trouble, and are not counted against Options.Attempts.
	attempts int
	excused  int
	first    time.Time
	tried    bool // this visit was an attempt, or has one of an earlier visit to record
	counted  bool // which that visit has counted as a failure

	routes     []*route.Route // of each target; nil where there is none
	outcomes   []outcome      // of each target
	throughput *meter.Pool    // of its category; nil for none
	metered    bool           // a push to one of its targets costs a unit of something

	needs    []*route.Bulkhead // of the routes that are to be taken
	expected bool              // the bulkheads that it needs know that it comes
	inside   []*route.Bulkhead // those where it has a place
	scopes   []throttle.Scope  // by which its admission was asked for last
	turn     *turn             // in its line; nil while it waits for no decision
	asked    bool              // the throttle has answered about it in this visit
	heir     bool              // it has taken the place of an older one with its collapse key
	elder    string            // whose slot it takes over when it asks; "" for none
	held     bool              // since it got its slot something else than a limit has kept it
}

// A term says whether the worker still has the jobs that it has pulled.
type term interface {
	Sure() bool
	Lost(ctx context.Context) bool
}

// An outcome is what is known of one target.
type outcome struct {
	providers.Outcome
	sent    bool      // in this visit
	excused bool      // it was sent in this visit, and its route was in trouble
	skip    skip      // why it is not sent to, in this visit
	until   time.Time // by when to use the units that it has; zero for none
	counted bool      // its device's limit counts a push that has not left
}

// decode reads the job.
func decode(job *queue.Job) (*delivery, error) {
	decoded, err := push.Decode(job.Payload)
	if err != nil {
		return nil, err
	}
	if job.ID != decoded.Notification.ID {
		return nil, &store.MalformedError{Reason: store.MalformedNotification, Err: errors.New("the task has another ID than its notification")}
	}
	in, _ := zone.Load(decoded.Notification.TimeZone) // see knowsZone
	d := &delivery{
		Notification: decoded.Notification, accepted: decoded.AcceptedAt, zone: in, back: job.Back, first: job.Last.First, job: job.Payload, queue: job.Queue, hand: job.Hand, failures: job.Failures, term: job.Term, at: job.At, arrived: job.Arrived,
		replay:   decoded.Replay,
		outcomes: make([]outcome, len(decoded.Notification.Targets)),
		held:     job.Parked || job.Last.Why != "" && job.Last.Why != store.Deferred,
	}
	d.known = d.returned(job.Last.Why)
	if d.Digest != nil && d.Priority != push.Critical {
		d.digest = d.Notification
	}
	return d, nil
}

// returned reports whether an earlier visit has put the notification off or found it held.
// A wait for its NotBefore does not count: the limiter was not asked yet. It began
// before NotBefore, by another clock than this machine's.
func (d *delivery) returned(why store.Why) bool {
	early := why == store.Deferred && d.back.Before(d.NotBefore.Add(-time.Second))
	return why != "" && !early
}

// knowsZone tells, at the first visit, of a job with a time zone that there is not: an older
// program or another one has put it on the queue, or the zones of this one are older.
func (h *handler) knowsZone(ctx context.Context, d *delivery) {
	if d.TimeZone == "" || d.zone != nil || !d.back.IsZero() {
		return
	}
	h.Observer.UnknownTimeZone()
	h.repeats.Tell(ctx, h.Log, slog.LevelWarn, "jobs name a time zone that there is not: limits.time_zone is taken, which says when their users' quiet hours are",
		nil, slog.String("app", d.App), slog.String("id", d.ID), slog.String("time_zone", d.TimeZone))
}

// clock is the zone by which its user's quiet hours are.
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

// open reports whether the target is still to be sent to.
func (o *outcome) open() bool {
	return o.Kind == 0 || o.Kind == providers.Retry || o.Kind == providers.Misconfigured
}

// due reports whether the target is to be sent to in this visit.
func (o *outcome) due() bool { return o.open() && !o.skip.some() }

// expect has the bulkheads that it needs know that it comes.
func (d *delivery) expect() {
	d.expected = true
	route.Expect(d.needs, d.Priority, 1)
}

// arrive takes that back: it is there, waits for something else, or does not come in this
// visit.
func (d *delivery) arrive() {
	if d.expected {
		d.expected = false
		route.Expect(d.needs, d.Priority, -1)
	}
}

// release gives back the places that it has before its providers.
func (d *delivery) release() {
	route.Release(d.inside)
	d.inside = nil
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

// orExpired is that time, or less when the delivery expires before.
func (d *delivery) orExpired(wait time.Duration, now time.Time) time.Duration {
	if !d.ExpiresAt.IsZero() {
		wait = min(wait, max(0, d.ExpiresAt.Sub(now)))
	}
	return wait
}

// waited is how long the job has been due on the queue: since it was accepted,
// or went back to it.
func (d *delivery) waited(now time.Time) time.Duration {
	since := d.back
	if since.IsZero() {
		since = d.due()
	}
	return max(0, now.Sub(since))
}

// sent reports whether this visit has sent anything.
func (d *delivery) sent() bool {
	return slices.ContainsFunc(d.outcomes, func(o outcome) bool { return o.sent })
}

// used reports whether a provider has taken the notification, or may have.
func (d *delivery) used() bool {
	return slices.ContainsFunc(d.outcomes, func(o outcome) bool { return o.Kind == providers.Delivered || o.Ambiguous })
}

// platforms are those of the targets, each once.
func (d *delivery) platforms() (all []push.Platform) {
	for i := range d.Targets {
		if p := d.Targets[i].Platform; !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}
