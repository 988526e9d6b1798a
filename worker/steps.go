package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/route"
)

// decode reads the job.
func (h *handler) decode(ctx context.Context, job *queue.Job) (*delivery, error) {
	if job.Type != push.TaskType {
		return nil, &push.MalformedError{Reason: push.MalformedNotification, Err: errors.New("the task is of another type than " + push.TaskType)}
	}
	decoded, err := push.Decode(job.Payload)
	if err != nil {
		return nil, err
	}
	if job.ID != decoded.Notification.ID {
		return nil, &push.MalformedError{Reason: push.MalformedNotification, Err: errors.New("the task has another ID than its notification")}
	}
	d := &delivery{
		Notification: decoded.Notification, accepted: decoded.AcceptedAt, back: job.Back, job: job.Payload, queue: job.Queue, visits: job.Retries,
		replay:   decoded.Replay || job.Foreign, // whoever put it there may not have looked whether it is known
		outcomes: make([]outcome, len(decoded.Notification.Targets)),
	}
	if job.Back.IsZero() {
		h.Observer.Handled(d.waited(time.Now()))
	}
	h.traceDelivery(ctx, d)
	return d, nil
}

// waited is how long the job has been due on the queue: since it was accepted,
// or went back to it, in whole seconds.
func (d *delivery) waited(now time.Time) time.Duration {
	since := d.back
	if since.IsZero() {
		since = latest(d.accepted, d.NotBefore)
	}
	return max(0, now.Sub(since))
}

// setAside keeps a job that is no notification as a dead letter.
func (h *handler) setAside(ctx context.Context, job *queue.Job, cause error) error {
	reason := string(push.MalformedNotification)
	var malformed *push.MalformedError
	if errors.As(cause, &malformed) {
		reason = string(malformed.Reason)
	}
	letter := &push.Letter{
		ID: job.ID, State: push.Malformed, Reason: reason, Attempts: job.Retries, Error: cause.Error(),
		At: time.Now().UTC(), Queue: job.Queue, Job: job.Payload,
	}
	if err := h.Records.SetAside(ctx, letter); err != nil {
		return later(err)
	}
	h.Log.LogAttrs(ctx, slog.LevelWarn, "job set aside", slog.String("task", job.ID), slog.String("queue", job.Queue), slog.String("reason", reason))
	h.Observer.Ended(letter.State)
	h.traceEnd(ctx, letter.State)
	return nil
}

// resume takes up what earlier visits have left, and answers whether this one
// ends with it. A first visit has nothing to look up.
func (h *handler) resume(ctx context.Context, d *delivery) (done bool, err error) {
	if d.visits == 0 && !d.replay {
		return false, nil
	}
	if h.queue.Settling(d.ID) {
		return true, nil // it is settled when asynq is done with this job
	}
	if h.unrecorded.take(d) {
		return true, h.recordAgain(ctx, d)
	}
	record, err := h.Records.Lookup(ctx, d.ID)
	switch {
	case errors.Is(err, push.ErrUnknownID):
		if err := h.Records.Arrive(ctx, d.Notification, d.queue); err != nil {
			return false, err
		}
	case err != nil:
		return false, err
	case record.State.Ended():
		return true, nil
	default:
		d.attempts, d.first = record.Attempts, record.FirstAttempt
		for i, o := range record.Outcomes {
			if i < len(d.outcomes) {
				d.outcomes[i] = resumed(o)
			}
		}
	}
	d.doubt()
	if d.visits-d.attempts > h.Attempts {
		return true, h.giveUp(ctx, d)
	}
	return false, nil
}

// doubt marks what a visit may have sent whose end is not recorded: its worker
// has crashed, or could not tell.
func (d *delivery) doubt() {
	if d.visits <= d.attempts {
		return
	}
	for i := range d.outcomes {
		if o := &d.outcomes[i]; o.open() {
			o.Ambiguous, o.told.Ambiguous = true, true
		}
	}
}

// giveUp ends what may have been sent as often as it may be, with nothing to
// show for it: it crashes its workers, or cannot be settled.
func (h *handler) giveUp(ctx context.Context, d *delivery) error {
	c := d.cutShort(push.Exhausted, fmt.Sprintf("what became of %d attempts is not recorded", d.visits-d.attempts))
	c.reason = string(providers.Unrecorded)
	return h.finish(ctx, d, c)
}

// admit asks the throttle, waits for the instant of an admission that is near,
// and takes a place before each provider. An admission that this process comes
// late for, for want of a processor or a place, is asked for again: at its own
// instant it was right, now it may not be. So is one whose limits have changed
// while it was waited for.
func (h *handler) admit(ctx context.Context, d *delivery) (throttle.Decision, error) {
	scopes := h.Limits.Scopes(d.User, d.Category)
	d.paced = len(scopes) > 0
	decision, err := h.await(ctx, d)
	for range lateTries {
		if err != nil || decision.Status != throttle.Granted {
			return decision, err
		}
		due := time.Now().Add(decision.Left)
		d.slotted = d.slotted || decision.Left > 0 && decision.Slot.IsZero()
		if err := h.waitOut(ctx, decision.Left); err != nil {
			return decision, err
		}
		if !route.Acquire(ctx, d.needs) {
			return decision, errBusy
		}
		late := time.Since(due)
		now := h.Limits.Scopes(d.User, d.Category)
		if len(now) == 0 || late < tooLate && sameScopes(now, scopes) {
			h.paced(decision, late)
			return decision, nil
		}
		scopes = now
		// with the place kept, if it may go now
		decision, err = h.acquire(ctx, d)
		if err == nil && decision.Status == throttle.Granted && decision.Left < tooLate && clock.Sleep(ctx, decision.Left) == nil {
			h.paced(decision, 0)
			return decision, nil
		}
		route.Release(d.needs)
	}
	if err != nil {
		return decision, err
	}
	return decision, errTooLate
}

// request asks for the delivery's admission.
func (h *handler) request(d *delivery) throttle.Request {
	horizon := time.Duration(forever)
	if !d.ExpiresAt.IsZero() {
		horizon = max(0, time.Until(d.ExpiresAt))
	}
	wait := min(h.MaxWait, horizon)
	if h.full() {
		wait = 0
	}
	return throttle.Request{
		App: d.App, User: d.User, ID: d.ID, Category: d.Category, Accepted: d.place(),
		Scopes: h.Limits.Scopes(d.User, d.Category), Horizon: horizon, Wait: wait,
		MaxBooked: h.MaxBooked, Returned: !d.back.IsZero(),
	}
}

// place is the instant that says the notification's place among those that wait: when
// it was accepted or may go at first. What returns from an attempt or is requeued
// comes behind those that wait then.
func (d *delivery) place() time.Time {
	if d.attempts > 0 || d.replay {
		return time.Time{}
	}
	return latest(d.accepted, d.NotBefore)
}

// forever is further ahead than any notification waits.
const forever = 10 * 365 * 24 * time.Hour

func sameScopes(a, b []throttle.Scope) bool {
	return slices.EqualFunc(a, b, func(a, b throttle.Scope) bool {
		return a.Name == b.Name && a.Policy.MinGap == b.Policy.MinGap && slices.Equal(a.Policy.Rates, b.Policy.Rates)
	})
}

// paced tells how much after its slot what had to wait goes out.
func (h *handler) paced(decision throttle.Decision, late time.Duration) {
	if !decision.Slot.IsZero() {
		late += decision.At.Sub(decision.Slot)
	} else if decision.Left == 0 {
		return
	}
	h.Observer.Paced(late)
}

const (
	// tooLate is how much after its instant an admission is asked for again.
	tooLate   = 25 * time.Millisecond
	lateTries = 4
)

var (
	errTooLate   = errors.New(whyTooLate)
	errBusy      = errors.New(whyBusy)
	errUnchecked = errors.New(whyUnchecked)
)

// A slot that is waited for here is asked for ahead: what is late for it finds the
// next ones let through, and goes after them. But not at once: others come meanwhile
// that were accepted earlier.
const (
	settled    = 100 * time.Millisecond
	beforeSlot = 500 * time.Millisecond
	tightSlot  = 50 * time.Millisecond
)

// askAfter is when to ask again for a slot that is so far away.
func askAfter(left time.Duration) time.Duration {
	return max(left-beforeSlot, min(settled, left-tightSlot))
}

// await asks the throttle, and again before a slot that is near: until then
// whoever was accepted earlier may take it, and have the next one left.
func (h *handler) await(ctx context.Context, d *delivery) (throttle.Decision, error) {
	for try := 1; ; try++ {
		decision, err := h.inTurn(ctx, d, try == 1)
		if err != nil || decision.Status != throttle.Deferred || decision.Full || decision.Left > h.MaxWait || h.full() || try > lateTries {
			return decision, err
		}
		d.slotted = d.slotted || decision.Slot.IsZero()
		if err := h.waitOut(ctx, askAfter(decision.Left)); err != nil {
			return decision, err
		}
	}
}

// inTurn asks the throttle, for the first time in the order of acceptance.
func (h *handler) inTurn(ctx context.Context, d *delivery, first bool) (throttle.Decision, error) {
	if first && d.back.IsZero() && d.paced && h.asks.enter(ctx, d) {
		defer h.asks.leave(d)
	}
	return h.acquire(ctx, d)
}

func (h *handler) acquire(ctx context.Context, d *delivery) (throttle.Decision, error) {
	request := h.request(d)
	if len(request.Scopes) == 0 {
		return h.Limiter.Acquire(ctx, request)
	}
	ctx, span := h.startSpan(ctx, "acquire")
	asked := time.Now()
	decision, err := h.Limiter.Acquire(ctx, request)
	if err != nil {
		err = h.notAcquired(ctx, d, err)
	}
	h.Observer.Checked(time.Since(asked))
	traceDecision(span, decision, err)
	h.wake(decision.Moved)
	return decision, err
}

// deferUntil returns the job to the queue until its slot, or until there may be
// room for it where the user's line is full and it is ready to wait for that.
func (h *handler) deferUntil(ctx context.Context, d *delivery, decision throttle.Decision) error {
	if decision.Full && d.IfFull == push.IfFullReject {
		return h.finish(ctx, d, d.lineFull())
	}
	h.Observer.Deferred(d.App, d.Category, decision)
	ended, err := h.Records.Defer(ctx, d.ID, decision.At, decision.Scope, decision.Rule)
	if ended { // by another worker, that has taken over the job: nobody would come for the slot
		h.giveBack(ctx, d, true)
		return nil
	}
	if err != nil {
		h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "deferral not recorded", slog.String("id", d.ID), slog.Any("error", err))
	}
	return queue.SnoozeUntil(whyDeferred, decision.Left)
}

// waitOut waits in the process, where so many may wait at once.
func (h *handler) waitOut(ctx context.Context, left time.Duration) error {
	if left <= 0 {
		return nil
	}
	h.waiting.Add(1)
	defer h.waiting.Add(-1)
	return clock.Sleep(ctx, left)
}

// full reports whether nothing more should wait in the process.
func (h *handler) full() bool { return h.waiting.Load() >= int64(h.MaxWaiting) }

// later is a new visit because something of ours is away.
func later(cause error) error { return queue.Snooze(cause.Error(), queue.Again) }

// turnedAway is why the delivery is not to be sent now; nil when it may be.
func (h *handler) turnedAway(d *delivery, now time.Time) error {
	if h.queue.Refused(d.queue) {
		return queue.Snooze(whyUnwritten, route.BusyDelay)
	}
	if delay := route.Busy(d.needs, now); delay > 0 {
		return queue.Snooze(whyBusy, delay)
	}
	return nil
}

// orLater is the error as a reason to come back.
func orLater(err error) error {
	if err == nil || errors.As(err, new(*queue.Return)) {
		return err
	}
	return later(err)
}

// end ends the notification without sending it any more.
func (h *handler) end(ctx context.Context, d *delivery, state push.State, why string) error {
	return h.finish(ctx, d, d.cutShort(state, why))
}

// letter is what the dead letters keep of the delivery.
func (d *delivery) letter(c conclusion, attempts int) *push.Letter {
	return &push.Letter{
		ID: d.ID, State: c.state, Reason: c.reason, Attempts: attempts, Error: c.problem,
		Outcomes: d.told(), At: time.Now().UTC(), Queue: d.queue, Job: json.RawMessage(d.job),
	}
}
