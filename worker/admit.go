package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/route"
)

// admit asks the throttle, waits for the instant of an admission that is near,
// and takes a place before each provider. An admission that this process comes
// late for, for want of a processor, a place or a connection, is asked for again:
// at its own instant it was right, now it may not be. So is one whose limits have
// changed while it was waited for.
func (h *handler) admit(ctx context.Context, d *delivery) (throttle.Decision, error) {
	d.scopes = h.Limits.Scopes(d.App, d.User, d.Category)
	var decision throttle.Decision
	var kept bool
	var err error
	if d.inside == nil {
		decision, err = h.ask(ctx, d)
	} else if decision, kept, err = h.renew(ctx, d); kept {
		return decision, nil
	}
	for range lateTries {
		if decision, err = h.await(ctx, d, decision, err); err != nil || decision.Status != throttle.Granted {
			return decision, err
		}
		due := time.Now().Add(decision.Left)
		d.slotted = d.slotted || decision.Left > 0 && decision.Slot.IsZero()
		if err := h.waitOut(ctx, decision.Left); err != nil {
			return decision, err
		}
		if d.metered && !route.Room(d.needs, d.Priority) {
			h.giveUnitsBack(d) // they would lapse
		}
		if !route.Acquire(ctx, d.needs, d.Priority) {
			return decision, errBusy
		}
		d.inside = d.needs
		late := time.Since(due)
		now := h.Limits.Scopes(d.App, d.User, d.Category)
		if len(now) == 0 || late < tooLate && sameScopes(now, d.scopes) {
			h.paced(d, decision, late)
			return decision, nil
		}
		if decision, kept, err = h.renew(ctx, d); kept {
			return decision, nil
		}
	}
	if err != nil {
		return decision, err
	}
	return decision, errTooLate
}

// renew asks again for a delivery that has its places and comes too late for its
// admission. Where it may go now it keeps the places, else it gives them back.
func (h *handler) renew(ctx context.Context, d *delivery) (decision throttle.Decision, kept bool, err error) {
	decision, err = h.askAgain(ctx, d)
	if err == nil && decision.Status == throttle.Granted && decision.Left < tooLate && clock.Sleep(ctx, decision.Left) == nil {
		h.paced(d, decision, 0)
		return decision, true, nil
	}
	route.Release(d.inside)
	d.inside = nil
	return decision, false, err
}

// askTogether asks the throttle about the deliveries of a line, in their order. One that
// costs units is alone, and takes them first.
func (h *handler) askTogether(ctx context.Context, together []*turn) []answer {
	switch lost := slices.IndexFunc(together, func(t *turn) bool { return t.term.Lost(ctx) }); {
	case lost == 0:
		return []answer{{err: queue.ErrLost}}
	case lost > 0:
		together = together[:lost] // the others ask again
	}
	first, began := together[0].delivery, time.Now()
	if !h.takeUnits(ctx, first) {
		return []answer{{err: errOverQuota}}
	}
	first.held = first.held || time.Since(began) >= tooLate // by a quota
	request := h.request(first)
	first.scopes = request.Scopes
	if len(together) == 1 {
		decision, err := h.Limiter.Acquire(ctx, request)
		return []answer{{decision, err}}
	}
	requests := make([]throttle.Request, len(together))
	for i, t := range together {
		requests[i] = h.request(t.delivery)
		requests[i].Scopes, t.scopes = request.Scopes, request.Scopes
	}
	decisions, err := h.Limiter.AcquireAll(ctx, requests)
	if err != nil {
		return slices.Repeat([]answer{{err: err}}, len(together))
	}
	answers := make([]answer, len(decisions))
	for i, decision := range decisions {
		answers[i].Decision = decision
	}
	return answers
}

// request asks for the delivery's admission.
func (h *handler) request(d *delivery) throttle.Request {
	horizon := time.Duration(forever)
	if !d.ExpiresAt.IsZero() {
		horizon = max(0, time.Until(d.ExpiresAt))
	}
	wait := min(d.ahead, horizon)
	if h.full() {
		wait = 0
	}
	return throttle.Request{
		App: d.App, User: d.User, ID: d.ID, Category: d.Category, Accepted: d.place(),
		Scopes: h.Limits.Scopes(d.App, d.User, d.Category), Horizon: horizon, Wait: wait,
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
	return d.due()
}

// forever is further ahead than any notification waits.
const forever = 10 * 365 * 24 * time.Hour

func sameScopes(a, b []throttle.Scope) bool {
	return slices.EqualFunc(a, b, func(a, b throttle.Scope) bool {
		return a.Name == b.Name && a.Policy.MinGap == b.Policy.MinGap && slices.Equal(a.Policy.Rates, b.Policy.Rates)
	})
}

// paced records how late a delivery leaves after its slot, where a limit alone has made it
// wait until then.
func (h *handler) paced(d *delivery, decision throttle.Decision, late time.Duration) {
	if !decision.Slot.IsZero() {
		late += decision.At.Sub(decision.Slot)
	} else if decision.Left == 0 {
		return
	}
	// it may have been left on the queue at its slot
	due := d.slot.Add(-h.MaxWait)
	skipped := func(r *route.Route) bool { return r != nil && !d.slot.IsZero() && r.SkippedSince(due) }
	if !d.held && !slices.ContainsFunc(d.routes, skipped) {
		h.Observer.Paced(late)
	}
}

const (
	// tooLate is how much after its instant an admission is asked for again.
	tooLate   = 25 * time.Millisecond
	lateTries = 4
)

// Why a delivery is not admitted, but for the limiter's reasons.
var (
	errTooLate   = &queue.Return{Why: queue.TooLate, After: queue.Again}
	errBusy      = errors.New("the provider is busy")
	errOverQuota = errors.New("a quota has nothing left")
)

// A slot that is waited for here is asked for beforeSlot ahead: what is late for it
// finds the next ones let through, and goes after them. What is new asks tightSlot ahead,
// or settled after it came: until then others come that were accepted earlier, and would
// not go before what was let through. The throttle gives it a sooner slot only where the
// next one is much later.
const (
	beforeSlot = 500 * time.Millisecond
	tightSlot  = 50 * time.Millisecond
	settled    = 90 * time.Millisecond
)

// nextAsk is after how long to ask again after that decision, and how far ahead to be let
// through then at most: what is new and has lost its slot leaves the order open.
func nextAsk(decision *throttle.Decision, most time.Duration) (left, ahead time.Duration) {
	left = decision.Left
	switch tight := left - tightSlot; {
	case left > beforeSlot+settled:
		return left - beforeSlot, most
	case decision.Slot.IsZero(): // it is new
		return min(max(tight, settled), left-left/10), min(most, beforeSlot)
	case tight > 0:
		return tight, most
	default: // what is late by a hair finds the next one let through
		return left / 2, most
	}
}

// ask asks the throttle. For a job that has a slot it does so shortly before the slot.
func (h *handler) ask(ctx context.Context, d *delivery) (throttle.Decision, error) {
	if d.admitted {
		return h.askAgain(ctx, d)
	}
	after := max(0, time.Until(d.slot)-beforeSlot)
	if after > h.MaxWait || h.full() {
		after = 0
	}
	return h.acquire(ctx, d, after, h.MaxWait)
}

// askAgain asks the throttle for what has not left with its admission. When it may not go
// now it gives that back: while it stands, the next one is let through at its very instant
// only, and whoever is let through ahead meanwhile goes before it.
func (h *handler) askAgain(ctx context.Context, d *delivery) (throttle.Decision, error) {
	decision, err := h.acquire(ctx, d, 0, h.MaxWait)
	if err == nil && decision.Status == throttle.Deferred {
		h.giveBack(ctx, d, false)
		decision, err = h.acquire(ctx, d, 0, h.MaxWait)
	}
	return decision, err
}

// await asks again before a slot that is near: until then whoever was accepted
// earlier may take it, and have the next one left.
func (h *handler) await(ctx context.Context, d *delivery, decision throttle.Decision, err error) (throttle.Decision, error) {
	for range lateTries {
		if err != nil || decision.Status != throttle.Deferred || decision.Full || decision.Left > h.MaxWait || h.full() {
			break
		}
		d.slotted = d.slotted || decision.Slot.IsZero()
		after, ahead := nextAsk(&decision, h.MaxWait)
		decision, err = h.acquire(ctx, d, after, ahead)
	}
	return decision, err
}

// acquire waits that long, and then asks the throttle in the delivery's turn. The delivery
// may be let through at most that far ahead of its instant.
func (h *handler) acquire(ctx context.Context, d *delivery, after, ahead time.Duration) (throttle.Decision, error) {
	d.ahead = ahead
	if after > 0 {
		h.waiting.Add(1)
		defer h.waiting.Add(-1)
	}
	if len(d.scopes) == 0 {
		told := h.lines.decide(ctx, d, after)
		return told.Decision, told.err
	}
	ctx, span := h.startSpan(ctx, "acquire")
	asked := time.Now().Add(after)
	told := h.lines.decide(ctx, d, after)
	decision, err := told.Decision, told.err
	if errors.Is(err, errOverQuota) {
		span.End()
		return decision, err
	}
	if err != nil {
		err = h.notAcquired(ctx, d, err)
	}
	h.Observer.Checked(max(0, time.Since(asked)))
	traceDecision(span, decision, err)
	d.held = d.held && !decision.Slot.IsZero() // else it gets its slot now
	decision.Left -= decision.Passed
	d.admitted = err == nil && decision.Status == throttle.Granted
	if err != nil || decision.Status != throttle.Granted || decision.Left >= tooLate {
		h.giveUnitsBack(d) // until it goes
	}
	h.wake(decision.Moved)
	return decision, err
}

// notAcquired tells of one user whose limits cannot be checked. Of a Redis that
// is away for all tells throttle.Outage. It returns why the notification waits,
// which is with its job.
func (h *handler) notAcquired(ctx context.Context, d *delivery, err error) error {
	if errors.Is(err, throttle.ErrUnavailable) || errors.Is(err, queue.ErrLost) || ctx.Err() != nil {
		return err
	}
	// each of what is theirs tries again every few seconds
	h.repeats.Tell(ctx, h.Log, slog.LevelWarn, "the limits of a user cannot be checked, and what is theirs waits: look at that user's keys in the limits' Redis",
		nil, slog.String("app", d.App), slog.String("id", d.ID), slog.Any("error", err))
	return &queue.Return{Why: queue.Unchecked, Detail: err.Error(), After: queue.Again}
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
