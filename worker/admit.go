package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/pushpace/pushpace/internal/base/logdedup"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/route"
)

// admission asks the limiter about deliveries, each in its turn. A delivery first takes the quota units
// of its pushes and a permit of each of its routes' bulkheads. A granted delivery is sent at once. Any
// other gives units and permits back, and returns to the queue until its slot.
type admission struct {
	*Options
	units   units
	slots   *slots
	lines   *lines
	tracing tracing
	repeats *logdedup.Log
	back    clockBack
}

func newAdmission(o *Options, u units, s *slots, t tracing, r *logdedup.Log) *admission {
	a := &admission{Options: o, units: u, slots: s, tracing: t, repeats: r}
	a.lines = newLines(cmp.Or(o.times.turn, turnTimeout), a.askTogether)
	return a
}

// Errors of an admission, besides the limiter's.
var (
	errBusy      = errors.New("the provider is busy")
	errOverQuota = errors.New("a quota is exhausted")
	errUnchecked = errors.New("the limits of the notification's user cannot be checked")
	errLost      = errors.New("another worker may own the job")
)

// admit asks the limiter about the delivery. While its slot is near, admit waits for the slot and asks
// again, for up to turnTimeout. A granted delivery keeps its permits and units; any other has given them
// back.
func (a *admission) admit(ctx context.Context, d *delivery) (throttle.Decision, error) {
	defer a.lines.leave(d)
	got := a.ask(ctx, d)
	for began := time.Now(); got.near() && time.Since(began) <= turnTimeout; got = a.ask(ctx, d) {
		if err := clock.Sleep(ctx, got.Left); err != nil {
			return got.Decision, err
		}
	}
	return got.Decision, got.err
}

// ask is admit without the wait.
func (a *admission) ask(ctx context.Context, d *delivery) answer {
	d.scopes = a.Limits.Scopes(d.App, d.User, d.Category)
	limited := len(d.scopes) > 0
	var span trace.Span
	if limited {
		ctx, span = a.tracing.start(ctx, "acquire")
	}
	asked := time.Now()
	got := a.askInTurn(ctx, d)
	decision, err := got.Decision, got.err
	if errors.Is(err, errOverQuota) || errors.Is(err, errBusy) {
		a.giveBack(ctx, d)
		if limited {
			span.End()
		}
		return answer{decision, err}
	}
	if limited {
		if err != nil {
			err = a.logUnchecked(ctx, d, err)
		}
		a.Observer.Checked(max(0, time.Since(asked)))
		traceDecision(span, decision, err)
	}
	if err != nil || decision.Status != throttle.Granted {
		a.giveBack(ctx, d)
	}
	if err != nil {
		return answer{decision, err}
	}
	if decision.ClockBack > 0 {
		a.back.log(ctx, a.Log, a.repeats, d, decision.ClockBack)
	}
	d.asked = true
	d.delayed = d.delayed && !decision.Slot.IsZero() // reset if this call gives it its first slot
	if limited {
		if p := decision.FollowUp; p.Any() { // saves building a request
			a.slots.follow(a.Options.request(d), p)
		}
	}
	if decision.Status == throttle.Granted {
		a.paced(d, &decision)
	}
	return answer{Decision: decision}
}

// askInTurn asks in the delivery's turn. A delivery that still holds permits, as it had no connection,
// asks at once: the deliveries ahead of it may be waiting for permits.
func (a *admission) askInTurn(ctx context.Context, d *delivery) answer {
	if d.permits != nil {
		return a.askTogether(ctx, &turn{delivery: d}, func() []*turn { return nil })[0]
	}
	return a.lines.askInTurn(ctx, d)
}

// giveBack gives back the delivery's permits and units.
func (a *admission) giveBack(ctx context.Context, d *delivery) {
	a.units.giveBack(ctx, d)
	d.release()
}

// askTogether asks the limiter about the first deliveries of a line, in their order. The first one waits
// for its permits and units. A later delivery without a free permit can only get a slot.
func (a *admission) askTogether(ctx context.Context, turn *turn, more func() []*turn) []answer {
	first := turn.delivery
	if err := a.enter(ctx, first); err != nil {
		return []answer{{err: err}}
	}
	request := a.Options.request(first)
	first.scopes = request.Scopes
	requests := a.behind(ctx, first, more())
	if len(requests) == 0 {
		decision, err := a.Limiter.Acquire(ctx, request)
		return []answer{{decision, err}}
	}
	requests = slices.Insert(requests, 0, request)
	decisions, err := a.Limiter.AcquireAll(ctx, requests)
	if err != nil {
		return slices.Repeat([]answer{{err: err}}, len(requests))
	}
	answers := make([]answer, len(decisions))
	for i, decision := range decisions {
		answers[i].Decision = decision
	}
	return answers
}

// behind returns the requests of the turns that share the first delivery's call.
func (a *admission) behind(ctx context.Context, first *delivery, turns []*turn) (requests []throttle.Request) {
	for _, t := range turns {
		d := t.delivery
		d.scopes = first.scopes
		inside := d.permits != nil || route.TryAcquire(d.needs, d.Priority)
		if inside {
			d.permits = d.needs
			d.arrive()
		}
		if t.term.Lost(ctx) || !inside && (d.mayExceedLine() || len(d.scopes) == 0) {
			break // it asks in its own turn
		}
		r := a.Options.request(d)
		r.SlotOnly = !inside
		requests = append(requests, r)
	}
	return requests
}

// enter waits for the delivery's units, and then for a permit of each bulkhead. It takes new
// units if they expire during that wait.
func (a *admission) enter(ctx context.Context, d *delivery) error {
	began := time.Now()
	if d.throughput != nil && d.expected { // so that other deliveries of its routes do not wait for its units
		d.arrive()
	}
	if !a.units.take(ctx, d) {
		return errOverQuota
	}
	if d.permits == nil {
		if d.metered && !route.HasFree(d.needs, d.Priority) {
			a.units.giveBack(ctx, d) // units would expire during the wait for a permit
		}
		for full := route.Acquire(ctx, d.needs, d.Priority); full != nil; full = route.Acquire(ctx, d.needs, d.Priority) {
			if d.expected {
				route.Expect([]*route.Bulkhead{full}, d.Priority, -1)
			}
			if d.skipFull(full); len(d.needs) == 0 {
				return errBusy
			}
		}
		d.arrive()
		d.permits = d.needs
	}
	if d.term.Lost(ctx) {
		return errLost
	}
	if !a.units.take(ctx, d) {
		return errOverQuota
	}
	d.delayed = d.delayed || time.Since(began) >= departureTimeout
	return nil
}

// logUnchecked logs that one user's limits cannot be checked; throttle.Outage logs an outage of the
// limits' Redis. logUnchecked returns the error that the job keeps as the reason of its wait.
func (a *admission) logUnchecked(ctx context.Context, d *delivery, err error) error {
	if errors.Is(err, throttle.ErrUnavailable) || errors.Is(err, errLost) || ctx.Err() != nil {
		return err
	}
	// logged once, as each of the user's jobs retries every few seconds
	a.repeats.Write(ctx, a.Log, slog.LevelWarn, "the limits of a user cannot be checked, and the user's notifications wait: check the user's keys in the limits' Redis",
		nil, slog.String("app", d.App), slog.String("id", d.ID), slog.Any("error", err))
	return fmt.Errorf("%w: %w", errUnchecked, err)
}

// paced records how long after its slot the delivery was admitted, if only a limit delayed it.
func (a *admission) paced(d *delivery, decision *throttle.Decision) {
	if !decision.Slot.IsZero() && !d.delayed {
		a.Observer.Paced(decision.At.Sub(decision.Slot))
	}
}

// skipFullRoutes counts the delivery as on its way to its bulkheads, and skips the targets of full
// routes. It returns nil if a target is left, else a requeue. While Redis refuses to record outcomes, it
// requeues every job.
func (a *admission) skipFullRoutes(d *delivery) result {
	if d.at.Refused(d.queue) {
		return requeue{Return: store.Return{Why: store.RedisRefuses, After: store.RetryDelay}}
	}
	d.needs = d.bulkheads()
	d.expect()
	d.arrived()
	now := time.Now()
	for _, b := range slices.Clone(d.needs) {
		if !b.Fits(d.Priority, now) {
			d.skipFull(b)
		}
	}
	if len(d.needs) == 0 {
		return d.requeueUnsent()
	}
	return nil
}

// skipFull skips the targets that need a permit of the bulkhead.
func (d *delivery) skipFull(b *route.Bulkhead) {
	for i, r := range d.routes {
		if r != nil && r.Bulkhead == b && d.outcomes[i].due() {
			d.outcomes[i].skip = skip{reason: routeFull}
		}
	}
	d.needs = slices.DeleteFunc(d.needs, func(other *route.Bulkhead) bool { return other == b })
}
