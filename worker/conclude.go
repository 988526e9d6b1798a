package worker

import (
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/route"
)

// An outcome is what is known of one target.
type outcome struct {
	providers.Outcome
	sent bool // in this visit
	// blocked says that the route is closed, in this visit, and pausedBy by which
	// operator's pause, if one does.
	blocked  bool
	pausedBy *pause.Pause
	// missed says that there was no connection for it at its instant.
	missed bool
	// until is by when to use the units that it has, zero for none, and lacks what has
	// none for it, in this visit.
	until time.Time
	lacks *meter.Pool
	// guarded is what holds its device back, in this visit; nil for nothing.
	guarded *queue.Return
}

// open reports whether the target is still to be sent to.
func (o *outcome) open() bool {
	return o.Kind == 0 || o.Kind == providers.Retry || o.Kind == providers.Misconfigured
}

// due reports whether the target is to be sent to in this visit.
func (o *outcome) due() bool { return o.open() && !o.blocked }

// recorded is an outcome as an earlier visit has recorded it.
func recorded(r ledger.TargetOutcome) (o outcome) {
	o.Ambiguous = r.Ambiguous
	for kind := providers.Delivered; kind <= providers.Misconfigured; kind++ {
		if kind.String() == r.Kind {
			o.Kind, o.Reason, o.ProviderID = kind, providers.Reason(r.Reason), r.ProviderID
		}
	}
	return o
}

// A disposition is what becomes of a job after this visit: each step of the pipeline
// may return one, and dispose alone carries it out. The zero value is that another
// visit, or another worker, has ended the notification.
type disposition struct {
	// state is how the notification ends, or push.Waiting for a job that comes back.
	state push.State
	// reason and problem say more of an end, or of an attempt.
	reason, problem string
	dead            int // targets whose token is dead

	// back is how a job returns to the queue. Its Wanted is the slot that a deferral has
	// given it, by this machine's clock.
	back queue.Return
	// attempt says that the visit was an attempt, which is to be recorded, and counted
	// that an earlier visit has counted it on asynq's side.
	attempt, counted bool
	blocked          bool // some targets were not sent to, because their route is closed
	release          release
	// deferral is the limiter's, when that has put the notification off.
	deferral throttle.Decision
}

// release says what of its slot a job that comes back gives back.
type release int

const (
	nothing     release = iota
	slot                // and those behind it are woken
	slotQuietly         // and those behind it are not: the next one is likely to give its back too
)

// later returns the job to the queue: as the error says if it is a Return, else because
// something of ours does not answer.
func later(err error) disposition {
	back := &queue.Return{Why: queue.Failed, Detail: err.Error(), After: queue.Again}
	if !errors.As(err, &back) && errors.Is(err, throttle.ErrUnavailable) {
		back.Why = queue.LimiterAway
	}
	return snooze(*back)
}

// snooze brings the job back, at no cost.
func snooze(back queue.Return) disposition {
	return disposition{state: push.Waiting, back: back}
}

// snoozeBlocked brings the job back when a route may be open, at the cost of neither an
// attempt nor a slot.
func (h *handler) snoozeBlocked(d *delivery) disposition {
	to := snooze(h.whyBlocked(d))
	to.blocked, to.release = true, slotQuietly
	return to
}

// whyBlocked is how the delivery comes back for targets that were not sent to: for its
// devices when the first one may get another.
func (h *handler) whyBlocked(d *delivery) queue.Return {
	if d.lacks() != nil {
		return d.overQuota()
	}
	var first *queue.Return
	for i := range d.outcomes {
		if g := d.outcomes[i].guarded; g != nil && (first == nil || g.After < first.After) {
			first = g
		}
	}
	if first != nil {
		back := *first
		back.After = d.orExpired(back.After, time.Now())
		return back
	}
	return queue.Return{Why: queue.ProviderPaused, After: h.blockedFor(d)}
}

// turnedAway reports whether the delivery is not to be sent now, and brings it back.
func (h *handler) turnedAway(d *delivery, now time.Time) (disposition, bool) {
	if h.queue.Refused(d.queue) {
		return snooze(queue.Return{Why: queue.RedisRefuses, After: route.BusyDelay}), true
	}
	delay := route.Busy(d.needs, d.Priority, now)
	return snooze(queue.Return{Why: queue.ProviderBusy, After: delay}), delay > 0
}

// busy brings a job back that found no place in a bulkhead.
func (h *handler) busy(d *delivery) disposition {
	to, away := h.turnedAway(d, time.Now())
	if !away {
		to.back.After = route.BusyDelay
	}
	to.release = slot
	return to
}

// overQuota returns the job of an app whose quota has nothing left. It costs no attempt,
// and the job keeps what it holds of its user's limits.
func (d *delivery) overQuota() queue.Return {
	back := control.OverQuota(route.QuotaOf(d.lacks()))
	back.After = d.orExpired(d.lacks().Back(1), time.Now())
	return back
}

// postpone brings the job back at its slot, or when there may be room for it where the
// user's line is full and it is ready to wait for that.
func (d *delivery) postpone(decision throttle.Decision) disposition {
	if decision.Full && d.IfFull == push.IfFullReject {
		return d.lineFull()
	}
	to := until(decision.Left)
	to.deferral = decision
	if !decision.Full {
		to.back.Wanted = time.Now().Add(decision.Left)
	}
	return to
}

// until brings the job back when the time left is over.
func until(left time.Duration) disposition {
	return snooze(queue.Return{Why: queue.Deferred, After: queue.Before(left)})
}

// settle ends the notification after an attempt, or brings the job back for another.
func (h *handler) settle(d *delivery) disposition {
	if !d.attempted() {
		return h.snoozeBlocked(d)
	}
	d.attempts++
	if d.first.IsZero() {
		d.first = time.Now()
	}
	to := h.conclude(d)
	to.attempt = true
	return to
}

// attempted reports whether the visit was an attempt: that it sent something, or
// had nothing to wait for.
func (d *delivery) attempted() bool {
	blocked := false
	for i := range d.outcomes {
		if d.outcomes[i].sent {
			return true
		}
		blocked = blocked || d.outcomes[i].blocked
	}
	return !blocked
}

// A budget is what a notification may spend on attempts.
type budget struct {
	attempts int
	time     time.Duration
}

// conclude decides what follows from the outcomes of all targets, after the
// given number of attempts, the first of them that long ago.
func conclude(outcomes []outcome, attempts int, since time.Duration, b budget, backoff time.Duration) disposition {
	var c disposition
	var delivered, retry, misconfigured, rejected bool
	for i := range outcomes {
		o := &outcomes[i]
		if o.blocked {
			c.blocked = true
			continue
		}
		switch o.Kind {
		case providers.Delivered:
			delivered = true
			continue
		case providers.DeadToken:
			c.dead++
			continue
		case providers.Retry:
			retry = true
		case providers.Misconfigured:
			misconfigured = true
		case providers.Rejected:
			rejected = true
		}
		c.back.After = max(c.back.After, o.RetryAfter)
		c.reason = string(o.Reason)
		if o.Err != nil {
			c.problem = o.Err.Error()
		}
	}
	again := retry || misconfigured
	spent := since > b.time || retry && !c.blocked && attempts >= b.attempts
	switch {
	case (again || c.blocked) && !spent:
		c.state = push.Waiting
		if again {
			c.back.After = max(c.back.After, backoff)
		}
	case delivered:
		c.state = push.Delivered
	case again || c.blocked:
		c.state = push.Exhausted
	case rejected:
		c.state = push.Rejected
	default:
		c.state = push.Undeliverable
	}
	return c
}

func (h *handler) conclude(d *delivery) disposition {
	since := time.Duration(0)
	if !d.first.IsZero() {
		since = time.Since(d.first)
	}
	to := conclude(d.outcomes, d.attempts, since, budget{h.Attempts, h.RetryTime}, backoffAfter(d.attempts))
	if to.state != push.Waiting {
		return to
	}
	to.back.Why, to.release = queue.Retried, slot
	if to.blocked = to.blocked && to.back.After == 0; to.blocked { // else other targets are to be sent to again, then
		to.back = h.whyBlocked(d)
	}
	return to
}

// cutShort ends what is not delivered by now.
func (d *delivery) cutShort(state push.State, why string) disposition {
	c := disposition{state: state, problem: why}
	for i := range d.outcomes {
		switch d.outcomes[i].Kind {
		case providers.Delivered:
			c.state = push.Delivered
		case providers.DeadToken:
			c.dead++
		}
	}
	return c
}

// lineFull ends what there is no room for in the user's line.
func (d *delivery) lineFull() disposition {
	c := d.cutShort(push.Rejected, "as many of the user's notifications wait as may")
	if c.state == push.Rejected {
		c.reason = string(providers.LineFull)
	}
	return c
}

// used reports whether a provider has taken the notification, or may have.
func (d *delivery) used() bool {
	for i := range d.outcomes {
		if o := &d.outcomes[i]; o.Kind == providers.Delivered || o.Ambiguous {
			return true
		}
	}
	return false
}

// backoffAfter is the jittered exponential wait before the next attempt.
func backoffAfter(attempts int) time.Duration {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = time.Second, 10*time.Minute, 2
	var d time.Duration
	for range min(attempts, 20) {
		d = b.NextBackOff()
	}
	return d
}
