package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/internal/base/repeats"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/route"
)

// admission has deliveries admitted by the throttle, in their turn, and gives them their
// places before the providers.
type admission struct {
	*Options
	units   units
	slots   *slots
	lines   *lines
	tracing tracing
	repeats *repeats.Log
	waiting atomic.Int64 // notifications that wait in the process
}

func newAdmission(o *Options, u units, s *slots, t tracing, r *repeats.Log) *admission {
	a := &admission{Options: o, units: u, slots: s, tracing: t, repeats: r}
	a.lines = newLines(a.askTogether)
	return a
}

// Why a delivery is not admitted, but for the limiter's reasons.
var (
	errTooLate   = &queue.Return{Why: queue.TooLate, After: queue.Again}
	errBusy      = errors.New("the provider is busy")
	errOverQuota = errors.New("a quota has nothing left")
)

// admit asks the throttle, waits for the instant of an admission that is near, and takes a
// place before each provider. It asks again where a slot is near, and where the delivery
// comes late for its instant, for want of a processor, a place or a connection: maxAsks
// times in a visit at most.
func (a *admission) admit(ctx context.Context, d *delivery) (decision throttle.Decision, err error) {
	next := a.visit(d).first(d.slot, time.Now())
	if d.inside != nil { // there was no connection in time
		next = a.visit(d).renew()
	}
	d.scopes = a.Limits.Scopes(d.App, d.User, d.Category)
	for err == nil {
		if !next.inside {
			route.Release(d.inside)
			d.inside = nil
			d.slotted = d.slotted || next.after > 0 && decision.Slot.IsZero() && d.asks > 0
		}
		switch next.do {
		case ask:
			if next.gives {
				a.slots.giveBack(ctx, d, false)
			}
			if decision, err = a.ask(ctx, d, next); err == nil {
				next = a.visit(d).answered(next, &decision)
			}
		case enter:
			var late time.Duration
			if late, err = a.enter(ctx, d); err == nil {
				next = a.visit(d).entered(late, d.scopes, a.Limits.Scopes(d.App, d.User, d.Category))
			}
		case depart:
			a.paced(d, &decision, next.late)
			return decision, nil
		case putOff:
			return decision, nil
		case giveUp:
			return decision, errTooLate
		}
	}
	return decision, err
}

// visit is what the next step with the delivery depends on.
func (a *admission) visit(d *delivery) visit {
	return visit{asks: d.asks, most: a.MaxWait, full: a.full()}
}

// ask waits, and then asks the throttle in the delivery's turn.
func (a *admission) ask(ctx context.Context, d *delivery, how step) (throttle.Decision, error) {
	d.asks++
	if how.after > 0 || d.metered { // else nothing but the limiter's answer is waited for
		d.arrive()
	}
	if how.after > 0 {
		a.waiting.Add(1)
		defer a.waiting.Add(-1)
	}
	if len(d.scopes) == 0 {
		told := a.lines.decide(ctx, d, how.after)
		return told.Decision, told.err
	}
	ctx, span := a.tracing.start(ctx, "acquire")
	asked := time.Now().Add(how.after)
	told := a.lines.decide(ctx, d, how.after)
	decision, err := told.Decision, told.err
	if errors.Is(err, errOverQuota) {
		span.End()
		return decision, err
	}
	if err != nil {
		err = a.notAsked(ctx, d, err)
	}
	a.Observer.Checked(max(0, time.Since(asked)))
	traceDecision(span, decision, err)
	d.held = d.held && !decision.Slot.IsZero() // else it gets its slot now
	if err != nil || decision.Status != throttle.Granted {
		a.units.giveBack(d) // until it goes
	}
	if err != nil {
		return decision, err
	}
	if p := decision.Placed; p.Any() { // else no request is made
		a.slots.follow(a.Options.request(d), p)
	}
	a.slots.inherited(ctx, d)
	return decision, nil
}

// askTogether asks the throttle about the deliveries of a line, in their order. One that
// costs units is alone, and takes them first.
func (a *admission) askTogether(ctx context.Context, together []*turn) []answer {
	switch lost := slices.IndexFunc(together, func(t *turn) bool { return t.term.Lost(ctx) }); {
	case lost == 0:
		return []answer{{err: queue.ErrLost}}
	case lost > 0:
		together = together[:lost] // the others ask again
	}
	first, began := together[0].delivery, time.Now()
	if !a.units.take(ctx, first) {
		return []answer{{err: errOverQuota}}
	}
	first.held = first.held || time.Since(began) >= tooLate // by a quota
	request := a.Options.request(first)
	first.scopes = request.Scopes
	if len(together) == 1 {
		decision, err := a.Limiter.Acquire(ctx, request)
		return []answer{{decision, err}}
	}
	requests := make([]throttle.Request, len(together))
	for i, t := range together {
		requests[i] = a.Options.request(t.delivery)
		requests[i].Scopes, t.scopes = request.Scopes, request.Scopes
	}
	decisions, err := a.Limiter.AcquireAll(ctx, requests)
	if err != nil {
		return slices.Repeat([]answer{{err: err}}, len(together))
	}
	answers := make([]answer, len(decisions))
	for i, decision := range decisions {
		answers[i].Decision = decision
	}
	return answers
}

// notAsked tells of one user whose limits cannot be checked. Of a Redis that
// is away for all tells throttle.Outage. It returns why the notification waits,
// which is with its job.
func (a *admission) notAsked(ctx context.Context, d *delivery, err error) error {
	if errors.Is(err, throttle.ErrUnavailable) || errors.Is(err, queue.ErrLost) || ctx.Err() != nil {
		return err
	}
	// each of what is theirs tries again every few seconds
	a.repeats.Tell(ctx, a.Log, slog.LevelWarn, "the limits of a user cannot be checked, and what is theirs waits: look at that user's keys in the limits' Redis",
		nil, slog.String("app", d.App), slog.String("id", d.ID), slog.Any("error", err))
	return &queue.Return{Why: queue.Unchecked, Detail: err.Error(), After: queue.Again}
}

// enter waits for a place before each provider, and returns how long that took.
func (a *admission) enter(ctx context.Context, d *delivery) (late time.Duration, err error) {
	d.arrive()
	began := time.Now()
	if d.metered && !route.Room(d.needs, d.Priority) {
		a.units.giveBack(d) // they would lapse
	}
	if !route.Acquire(ctx, d.needs, d.Priority) {
		return 0, errBusy
	}
	d.inside = d.needs
	return time.Since(began), nil
}

// wait waits in the process, where so many may wait at once.
func (a *admission) wait(ctx context.Context, left time.Duration) error {
	if left <= 0 {
		return nil
	}
	a.waiting.Add(1)
	defer a.waiting.Add(-1)
	return clock.Sleep(ctx, left)
}

// full reports whether nothing more should wait in the process.
func (a *admission) full() bool { return a.waiting.Load() >= int64(a.MaxWaiting) }

// paced records how late a delivery leaves after its slot, where a limit alone has made it
// wait until then.
func (a *admission) paced(d *delivery, decision *throttle.Decision, late time.Duration) {
	if decision.Slot.IsZero() {
		return
	}
	late += decision.At.Sub(decision.Slot)
	// it may have been parked at its slot
	due := d.slot.Add(-a.MaxWait)
	parked := func(r *route.Route) bool { return r != nil && !d.slot.IsZero() && r.ParkedSince(due) }
	if !d.held && !slices.ContainsFunc(d.routes, parked) {
		a.Observer.Paced(late)
	}
}

// tooEarly waits for a delivery that may not go yet, where that is near. Else it brings the
// job back then.
func (a *admission) tooEarly(ctx context.Context, d *delivery) (to disposition, over bool) {
	left := time.Until(d.NotBefore)
	if left > a.MaxWait || left > 0 && a.full() {
		return until(left), true
	}
	if left > 0 {
		d.arrive()
	}
	if err := a.wait(ctx, left); err != nil {
		return later(err), true
	}
	return to, false
}

// busy reports whether the delivery is not to be sent now, since what is sent could not be
// recorded or as many wait for its providers as may, and how it comes back.
func (a *admission) busy(d *delivery) (to disposition, over bool) {
	back := queue.Return{Why: queue.ProviderBusy, After: route.BusyDelay}
	if d.at.Refused(d.queue) {
		back.Why = queue.RedisRefuses
		return snooze(back), true
	}
	return snooze(back), route.Busy(d.needs, d.Priority)
}

// foundBusy brings a job back that found no place in a bulkhead.
func (a *admission) foundBusy(d *delivery) disposition {
	to, _ := a.busy(d)
	to.release = slot
	return to
}
