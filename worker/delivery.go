package worker

import (
	"context"
	"slices"
	"time"

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
