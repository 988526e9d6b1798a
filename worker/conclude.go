package worker

import (
	"errors"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/control"
)

// A disposition is what becomes of a job after this visit: each step of the pipeline
// may return one, and dispose alone carries it out. The zero value is that another
// visit, or another worker, has ended the notification.
type disposition struct {
	// state is how the notification ends, or push.Waiting for a job that comes back.
	state push.State
	// reason and problem say more of an end, or of an attempt.
	reason, problem string
	dead            int // targets whose token is dead

	// back is how a job returns to the queue.
	back store.Return
	// kept is why a job returns that could not be sent to its targets, or to some of
	// them: it says how, in the place of back.
	kept skip
	// attempt says that the visit was an attempt, which is to be recorded, and counted
	// that an earlier visit has counted it as a failure.
	attempt, counted bool
	release          release
	// deferral is the limiter's, when that has put the notification off.
	deferral throttle.Decision
	// unfreed is why the slot of what an earlier visit has ended could not be given back.
	unfreed error
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
	back := &store.Return{Why: store.Failed, Detail: err.Error(), After: store.Again}
	if !errors.As(err, &back) && errors.Is(err, throttle.ErrUnavailable) {
		back.Why = store.LimiterAway
	}
	return snooze(*back)
}

// snooze brings the job back, at no cost.
func snooze(back store.Return) disposition {
	return disposition{state: push.Waiting, back: back}
}

// until brings the job back when the time left is over.
func until(left time.Duration) disposition {
	return snooze(store.Return{Why: store.Deferred, After: left})
}

// postpone brings the job back at its slot, or when there may be room for it in its line.
func (d *delivery) postpone(decision throttle.Decision) disposition {
	to := until(decision.Left)
	to.deferral, to.back.Quiet = decision, d.quiet(&decision)
	return to
}

// quiet is when quiet hours end that hold what is put off, by its user's clock; zero where
// none do.
func (d *delivery) quiet(decision *throttle.Decision) time.Time {
	switch {
	case !decision.Quiet.IsZero():
		return decision.Quiet.In(d.clock())
	case decision.Rule == throttle.QuietRule: // they are to begin
		return decision.At.In(d.clock())
	}
	return time.Time{}
}

// tooShort says of what would expire before its slot why it does.
func (d *delivery) tooShort(decision *throttle.Decision) string {
	if d.ExpiresAt.After(decision.Quiet) {
		return "would expire before its slot"
	}
	return "would expire in quiet hours"
}

// unsent brings a job back that could be sent to no target, at no cost of an attempt. One
// that waits for units keeps what it holds of its user's limits.
func (d *delivery) unsent() disposition {
	to := disposition{state: push.Waiting, kept: keptBy(d.outcomes)}
	if to.kept.reason != noUnits {
		to.release = slotQuietly
	}
	return to
}

// settle ends the notification after an attempt, or brings the job back for another.
func (d *delivery) settle(b budget, now time.Time, jitter float64) disposition {
	attempted, unsent := d.attempted(), d.unsent()
	if !attempted && unsent.kept.reason != leftAlone {
		return unsent
	}
	if d.first.IsZero() {
		d.first = now
	}
	if !attempted && now.Sub(d.first) <= b.time { // which what is left alone may spend, too
		return unsent
	}
	if attempted {
		d.attempts++
		if d.excusedNow() {
			d.excused++
		}
	}
	to := d.conclude(b, now, jitter)
	to.attempt = attempted
	return to
}

// attempted reports whether the visit was an attempt: that it sent something, or
// had nothing to wait for.
func (d *delivery) attempted() bool {
	return d.sent() || !keptBy(d.outcomes).some()
}

// excusedNow reports whether the attempt of this visit spends nothing: it failed by the
// trouble of a route, or by the app's configuration.
func (d *delivery) excusedNow() bool {
	excused := false
	for i := range d.outcomes {
		if o := &d.outcomes[i]; o.sent && o.open() {
			if !o.excused && o.Kind != providers.Misconfigured {
				return false
			}
			excused = true
		}
	}
	return excused
}

// backoff is the wait before the next attempt. A push that the app's configuration is
// refused for alone waits longer each time, at no cost.
func (d *delivery) backoff(jitter float64) time.Duration {
	for i := range d.outcomes {
		if o := &d.outcomes[i]; o.Kind == providers.Misconfigured && !o.excused {
			return backoffAfter(d.attempts, jitter)
		}
	}
	return backoffAfter(max(d.attempts-d.excused, min(d.attempts, 1)), jitter)
}

// conclude is how the notification ends, or how its job comes back, as far as its targets'
// outcomes say. jitter is from [0, 1).
func (d *delivery) conclude(b budget, now time.Time, jitter float64) disposition {
	since := time.Duration(0)
	if !d.first.IsZero() {
		since = now.Sub(d.first)
	}
	to := conclude(d.outcomes, d.attempts-d.excused, since, b, d.backoff(jitter))
	if to.state != push.Waiting {
		return to
	}
	to.back.Why, to.release = store.Retried, slot
	if to.back.After > 0 { // other targets are to be sent to again, then
		to.kept = skip{}
	}
	return to
}

// A budget is what a notification may spend on attempts.
type budget struct {
	attempts int
	time     time.Duration
}

// budget is what the delivery may spend. What quiet hours have held it since its first attempt takes none
// of its time.
func (o *Options) budget(d *delivery, now time.Time) budget {
	b := budget{o.Attempts, o.RetryTime}
	if !d.first.IsZero() {
		request := o.request(d)
		b.time += request.Held(d.first, now)
	}
	return b
}

// conclude decides how a notification goes on, by the outcomes of all its targets, the
// attempts that it has spent, and the time since the first of them.
func conclude(outcomes []outcome, attempts int, since time.Duration, b budget, backoff time.Duration) disposition {
	c := disposition{kept: keptBy(outcomes)}
	var delivered, retry, misconfigured, rejected bool
	for i := range outcomes {
		o := &outcomes[i]
		if o.skip.some() {
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
	if c.kept.reason == leftAlone && c.reason == "" {
		c.reason, c.problem = string(providers.OriginBackoff), c.kept.cause
	}
	again, kept := retry || misconfigured, c.kept.some()
	spent := since > b.time || retry && !kept && attempts >= b.attempts
	switch {
	case (again || kept) && !spent:
		c.state = push.Waiting
		if again {
			c.back.After = max(c.back.After, backoff)
		}
	case delivered:
		c.state = push.Delivered
	case again || kept:
		c.state = push.Exhausted
	case rejected:
		c.state = push.Rejected
	default:
		c.state = push.Undeliverable
	}
	return c
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

// muted reports whether the delivery is of somebody who is muted now.
func (h *handler) muted(d *delivery) bool {
	return h.Limits.Muted(control.LevelOf(d.Notification), d.Priority == push.Critical)
}

// unlessMuted ends what would return to the queue and was muted meanwhile: who looks there
// for what is muted may have come by.
func (h *handler) unlessMuted(d *delivery, to disposition) disposition {
	if to.state != push.Waiting || !h.muted(d) {
		return to
	}
	ended := d.silence()
	ended.attempt, ended.counted = to.attempt, to.counted
	return ended
}

// silence ends what is muted.
func (d *delivery) silence() disposition {
	return d.cutShort(push.Muted, "its user, its category or both are muted")
}

// superseded ends what a newer one has taken the place of.
func (d *delivery) superseded() disposition {
	return d.cutShort(push.Superseded, "a newer one has the same collapse key")
}

// lineFull ends what there is no room for in the user's line.
func (d *delivery) lineFull() disposition {
	c := d.cutShort(push.Rejected, "as many of the user's notifications wait as may")
	if c.state == push.Rejected {
		c.reason = string(providers.LineFull)
	}
	return c
}

const (
	firstBackoff   = time.Second
	longestBackoff = 10 * time.Minute
)

// backoffAfter is the exponential wait before the next attempt: half of it to one and a
// half, as the jitter from [0, 1) says.
func backoffAfter(attempts int, jitter float64) time.Duration {
	if attempts <= 0 {
		return 0
	}
	const doublings = 20 // more overflow
	wait := min(firstBackoff<<min(attempts-1, doublings), longestBackoff)
	return time.Duration(float64(wait) * (0.5 + jitter))
}
