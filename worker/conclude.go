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

// A fate is the result of a visit: an end, a back, or elsewhere. A step of the pipeline returns one,
// or nil to go on. Only dispose carries it out.
type fate interface{ fate() }

// An end ends the notification.
type end struct {
	state push.State
	// reason and problem say more.
	reason, problem string
	dead            int // targets whose token is dead
}

// A back returns the job to the queue.
type back struct {
	store.Return
	// kept is why it could not be sent to its targets, or to some of them: it says how the job
	// returns, in the place of Return.
	kept    skip
	park    string // of what it waits for: see store.ParkName
	release release
	// deferral is the limiter's, when that has put the notification off.
	deferral throttle.Decision
	// problem says more of an attempt.
	problem string
}

// elsewhere means that another visit, or another worker, has ended the notification.
type elsewhere struct {
	unfreed error // why its slot could not be given back
}

func (end) fate()       {}
func (back) fate()      {}
func (elsewhere) fate() {}

// release says what of its slot a job that comes back gives back.
type release int

const (
	nothing     release = iota
	slot                // and those behind it are woken
	slotQuietly         // and those behind it are not: the next one is likely to give its back too
)

// later returns the job to the queue, because something of ours does not answer.
func later(err error) back {
	to := store.Return{Why: store.Failed, Detail: err.Error(), After: store.Again}
	switch {
	case errors.Is(err, throttle.ErrUnavailable):
		to.Why = store.LimiterAway
	case errors.Is(err, errUnchecked):
		to.Why = store.Unchecked
	}
	return back{Return: to}
}

// tooLate returns the job to the queue, at no cost: it is to be admitted anew.
func tooLate() back {
	return back{Return: store.Return{Why: store.TooLate, After: store.Again}}
}

// until brings the job back when the time left is over.
func until(left time.Duration) back {
	return back{Return: store.Return{Why: store.Deferred, After: left}}
}

// postpone brings the job back at its slot, or when there may be room for it in its line.
func (d *delivery) postpone(decision throttle.Decision) back {
	to := until(decision.Left)
	to.Since = time.Now()
	to.deferral, to.Quiet = decision, d.quiet(&decision)
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
// that waits for nothing but units or places keeps what it holds of its user's limits.
func (d *delivery) unsent() back {
	to := back{kept: keptBy(d.outcomes)}
	for i := range d.outcomes {
		if s := d.outcomes[i].skip; s.some() && s.reason != noUnits && s.reason != routeFull {
			to.release = slotQuietly
		}
	}
	return to
}

// settle ends the notification after an attempt, or brings the job back for another.
func (d *delivery) settle(b budget, now time.Time, jitter float64) fate {
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
	d.tried = attempted
	return d.conclude(b, now, jitter)
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
func (d *delivery) conclude(b budget, now time.Time, jitter float64) fate {
	since := time.Duration(0)
	if !d.first.IsZero() {
		since = now.Sub(d.first)
	}
	return conclude(d.outcomes, d.attempts-d.excused, since, b, d.backoff(jitter))
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
// attempts that it has spent, and the time since the first of them: by an end or a back.
func conclude(outcomes []outcome, attempts int, since time.Duration, b budget, backoff time.Duration) fate {
	var over end
	again := back{Return: store.Return{Why: store.Retried}, kept: keptBy(outcomes), release: slot}
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
			over.dead++
			continue
		case providers.Retry:
			retry = true
		case providers.Misconfigured:
			misconfigured = true
		case providers.Rejected:
			rejected = true
		}
		again.After = max(again.After, o.RetryAfter)
		over.reason = string(o.Reason)
		if o.Err != nil {
			over.problem = o.Err.Error()
		}
	}
	if again.kept.reason == leftAlone && over.reason == "" {
		over.reason, over.problem = string(providers.OriginBackoff), again.kept.cause
	}
	repeats, kept := retry || misconfigured, again.kept.some()
	spent := since > b.time || retry && !kept && attempts >= b.attempts
	switch {
	case (repeats || kept) && !spent:
		if repeats {
			again.After = max(again.After, backoff)
		}
		if again.After > 0 { // other targets are to be sent to again, then
			again.kept = skip{}
		}
		again.problem = over.problem
		return again
	case delivered:
		over.state = push.Delivered
	case repeats || kept:
		over.state = push.Exhausted
	case rejected:
		over.state = push.Rejected
	default:
		over.state = push.Undeliverable
	}
	return over
}

// cutShort ends what is not delivered by now.
func (d *delivery) cutShort(state push.State, why string) end {
	c := end{state: state, problem: why}
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
func (h *handler) unlessMuted(d *delivery, to fate) fate {
	if _, returns := to.(back); returns && h.muted(d) {
		return d.silence()
	}
	return to
}

// silence ends what is muted.
func (d *delivery) silence() end {
	return d.cutShort(push.Muted, "its user, its category or both are muted")
}

// lineFull ends what there is no room for in the user's line.
func (d *delivery) lineFull() end {
	c := d.cutShort(push.Rejected, "as many of the user's notifications wait as may")
	if c.state == push.Rejected {
		c.reason = string(providers.LineFull)
	}
	return c
}

const (
	// firstBackoff is the wait after the first failed attempt: a provider that fails is not asked
	// again at once, and one that has restarted delays the push by a second.
	firstBackoff = time.Second
	// longestBackoff bounds the wait: so much later than the end of a trouble is a push at most. It is
	// reached with the eleventh attempt, after 17 minutes.
	longestBackoff = 10 * time.Minute
)

// backoffAfter is the exponential wait before the next attempt: half of it to one and a
// half, as the jitter from [0, 1) says.
func backoffAfter(attempts int, jitter float64) time.Duration {
	if attempts <= 0 {
		return 0
	}
	wait := min(firstBackoff<<min(attempts-1, 20), longestBackoff) // more doublings overflow
	return time.Duration(float64(wait) * (0.5 + jitter))
}
