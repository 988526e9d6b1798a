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

// A result of a visit is an end, a requeue, or endedElsewhere. A step of the pipeline returns one, or nil
// to go on. Only apply carries it out.
type result interface{ result() }

// An end ends the notification.
type end struct {
	state push.State
	// reason is a providers.Reason, and problem a text for operators.
	reason, problem string
	dead            int // targets with a dead token
}

// A requeue returns the job to the queue.
type requeue struct {
	store.Return
	// skipped is the deciding reason of skipped targets. If set, it replaces Return.
	skipped skip
	park    string // what the job waits for, a store.ParkName
	release release
	// deferral is the limiter's decision if a limit deferred the notification.
	deferral throttle.Decision
	problem  string // the attempt's error, for operators
}

// endedElsewhere means that another visit, or another worker, has ended the notification.
type endedElsewhere struct {
	unfreed error // why its slot could not be given back; nil if it was
}

func (end) result()            {}
func (requeue) result()        {}
func (endedElsewhere) result() {}

// release is the part of a slot that a job gives back when it returns to the queue.
type release int

const (
	nothing     release = iota
	slot                // and the jobs behind it are woken
	slotQuietly         // without a wake-up: the job behind it will probably give its slot back too
)

// requeueAfterError returns the job to the queue because Redis or the limiter failed.
func requeueAfterError(err error) requeue {
	to := store.Return{Why: store.Failed, Detail: err.Error(), After: store.RetryDelay}
	switch {
	case errors.Is(err, throttle.ErrUnavailable):
		to.Why = store.LimiterAway
	case errors.Is(err, errUnchecked):
		to.Why = store.Unchecked
	}
	return requeue{Return: to}
}

// requeueForAdmission returns the job to the queue for a new admission. It costs no attempt.
func requeueForAdmission() requeue {
	return requeue{Return: store.Return{Why: store.TooLate, After: store.RetryDelay}}
}

// requeueAfter returns the job to the queue for the given time.
func requeueAfter(left time.Duration) requeue {
	return requeue{Return: store.Return{Why: store.Deferred, After: left}}
}

// requeueAtSlot returns the job to the queue until its slot, or until its line may have room.
func (d *delivery) requeueAtSlot(decision throttle.Decision) requeue {
	to := requeueAfter(decision.Left)
	to.Since = time.Now()
	to.deferral, to.Quiet = decision, d.quietEnd(&decision)
	return to
}

// quietEnd returns the end of the quiet hours that deferred the delivery, in the user's zone; zero if no
// quiet hours did.
func (d *delivery) quietEnd(decision *throttle.Decision) time.Time {
	switch {
	case !decision.Quiet.IsZero():
		return decision.Quiet.In(d.clock())
	case decision.Rule == throttle.QuietRule: // the quiet hours have not begun yet
		return decision.At.In(d.clock())
	}
	return time.Time{}
}

// expiryReason returns why the delivery would expire before it could be sent.
func (d *delivery) expiryReason(decision *throttle.Decision) string {
	if d.ExpiresAt.After(decision.Quiet) {
		return "would expire before its slot"
	}
	return "would expire in quiet hours"
}

// requeueUnsent returns the job to the queue when no target could be sent to. It costs no attempt. A
// job that waits only for units or permits keeps its slot.
func (d *delivery) requeueUnsent() requeue {
	to := requeue{skipped: decidingSkip(d.outcomes)}
	for i := range d.outcomes {
		if s := d.outcomes[i].skip; s.isSet() && s.reason != noUnits && s.reason != routeFull {
			to.release = slotQuietly
		}
	}
	return to
}

// finishAttempt ends the notification after an attempt, or returns its job to the queue.
func (d *delivery) finishAttempt(b budget, now time.Time, jitter float64) result {
	attempted, unsent := d.attempted(), d.requeueUnsent()
	if !attempted && unsent.skipped.reason != originBackoff {
		return unsent
	}
	if d.first.IsZero() {
		d.first = now
	}
	if !attempted && now.Sub(d.first) <= b.time { // originBackoff counts against RetryTime
		return unsent
	}
	if attempted {
		d.attempts++
		if d.isExcused() {
			d.excused++
		}
	}
	d.hasAttempt = attempted
	return d.decide(b, now, jitter)
}

// attempted reports whether the visit was an attempt: it sent something, or skipped no target.
func (d *delivery) attempted() bool {
	return d.sent() || !decidingSkip(d.outcomes).isSet()
}

// isExcused reports whether this visit's attempt does not count against Options.Attempts: it failed
// because a route was in trouble, or because of the app's configuration.
func (d *delivery) isExcused() bool {
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

// backoff returns the wait before the next attempt. If the provider refuses only this push for the app's
// configuration, the wait grows with each attempt, although such attempts are excused.
func (d *delivery) backoff(jitter float64) time.Duration {
	for i := range d.outcomes {
		if o := &d.outcomes[i]; o.Kind == providers.Misconfigured && !o.excused {
			return backoffAfter(d.attempts, jitter)
		}
	}
	return backoffAfter(max(d.attempts-d.excused, min(d.attempts, 1)), jitter)
}

// decide derives the result from the targets' outcomes. jitter is in [0, 1).
func (d *delivery) decide(b budget, now time.Time, jitter float64) result {
	since := time.Duration(0)
	if !d.first.IsZero() {
		since = now.Sub(d.first)
	}
	return decide(d.outcomes, d.attempts-d.excused, since, b, d.backoff(jitter))
}

// A budget limits the attempts of a notification and the time that they may take.
type budget struct {
	attempts int
	time     time.Duration
}

// budget returns the delivery's budget. Quiet hours that delayed it since its first attempt do not
// count.
func (o *Options) budget(d *delivery, now time.Time) budget {
	b := budget{o.Attempts, o.RetryTime}
	if !d.first.IsZero() {
		request := o.request(d)
		b.time += request.QuietTime(d.first, now)
	}
	return b
}

// decide returns an end or a requeue. attempts excludes excused attempts; since is the time since the
// first attempt.
func decide(outcomes []outcome, attempts int, since time.Duration, b budget, backoff time.Duration) result {
	var over end
	again := requeue{Return: store.Return{Why: store.Retried}, skipped: decidingSkip(outcomes), release: slot}
	var delivered, retry, misconfigured, rejected bool
	for i := range outcomes {
		o := &outcomes[i]
		if o.skip.isSet() {
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
	if again.skipped.reason == originBackoff && over.reason == "" {
		over.reason, over.problem = string(providers.OriginBackoff), again.skipped.cause
	}
	repeats, kept := retry || misconfigured, again.skipped.isSet()
	spent := since > b.time || retry && !kept && attempts >= b.attempts
	switch {
	case (repeats || kept) && !spent:
		if repeats {
			again.After = max(again.After, backoff)
		}
		if again.After > 0 { // a target is retried after this delay, even if skipped targets wait for longer
			again.skipped = skip{}
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

// endEarly ends the notification in the given state, or as delivered if one of its targets was
// delivered, in this visit or an earlier one.
func (d *delivery) endEarly(state push.State, why string) end {
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

// muted reports whether a mute in force applies to the delivery.
func (h *handler) muted(d *delivery) bool {
	return h.Limits.Muted(control.LevelOf(d.Notification), d.Priority == push.Critical)
}

// unlessMuted replaces a requeue by an end if the delivery was muted during its visit: the scan that ends
// muted jobs on the queue may be over.
func (h *handler) unlessMuted(d *delivery, to result) result {
	if _, returns := to.(requeue); returns && h.muted(d) {
		return d.endMuted()
	}
	return to
}

// endMuted ends a muted notification.
func (d *delivery) endMuted() end {
	return d.endEarly(push.Muted, "its app, user, category or a combination of these is muted")
}

// rejectLineFull rejects a notification because its user's line is full.
func (d *delivery) rejectLineFull() end {
	c := d.endEarly(push.Rejected, "the user's line is full")
	if c.state == push.Rejected {
		c.reason = string(providers.LineFull)
	}
	return c
}

const (
	// firstBackoff is the mean wait after the first failed attempt. It spares a failing provider, and
	// delays a push by only a second if the provider has restarted.
	firstBackoff = time.Second
	// longestBackoff bounds the mean wait, and so how long after the end of a trouble a push is sent. The
	// eleventh attempt reaches it, after 17 minutes.
	longestBackoff = 10 * time.Minute
)

// backoffAfter returns the exponential wait before the next attempt, times 0.5 + jitter. jitter is in [0,
// 1).
func backoffAfter(attempts int, jitter float64) time.Duration {
	if attempts <= 0 {
		return 0
	}
	wait := min(firstBackoff<<min(attempts-1, 20), longestBackoff) // more doublings overflow
	return time.Duration(float64(wait) * (0.5 + jitter))
}
