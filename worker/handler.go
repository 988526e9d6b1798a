package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/route"
)

// A job passes fifteen files of this package. delivery.go decodes it, and line.go gives it its turn in
// the line of its user and category. Here it goes from step to step. It joins or replaces another
// notification (merging.go), loads its record (record.go), finds its routes (routing.go), and
// returns to the queue if all are closed (holds.go). With its units (units.go) and permits, admit.go asks the
// limiter (slots.go). send.go sends it, or records why not (reason.go). decide.go decides the result of
// the visit, and apply.go applies it. trace.go has the spans.

// Take implements queue.Handler. It gives the job its turn, in the order of acceptance.
func (h *handler) Take(job queue.Job) queue.Work {
	d, err := decode(&job)
	if err != nil {
		return func(ctx context.Context) queue.Result { return aside(ctx, err) }
	}
	if d.returnedAt.IsZero() {
		h.Observer.Handled(d.waited(time.Now()))
	}
	h.admission.lines.enter(d)
	return func(ctx context.Context) queue.Result {
		h.knowsZone(ctx, d)
		h.tracing.delivery(ctx, d, &job)
		return h.Handle(ctx, d)
	}
}

// aside makes a malformed job a dead letter.
func aside(ctx context.Context, cause error) queue.Result {
	traceEnd(ctx, store.Malformed)
	reason := store.MalformedNotification
	var malformed *store.MalformedError
	if errors.As(cause, &malformed) {
		reason = malformed.Reason
	}
	return queue.Malformed{Reason: reason, Why: cause.Error()}
}

// Handle takes the delivery through its visit.
func (h *handler) Handle(ctx context.Context, d *delivery) queue.Result {
	defer h.admission.lines.leave(d)
	if d.term.Lost(ctx) {
		return queue.Lost{}
	}
	// A sent delivery holds a permit until its outcome is recorded: a Redis that refuses writes thus
	// stops the sending.
	defer func() { h.units.giveBack(ctx, d); d.arrive(); route.Release(d.permits) }()
	return h.finisher.apply(ctx, d, h.unlessMuted(d, h.deliver(ctx, d)))
}

// deliver takes the delivery through the steps of the pipeline, until one returns a result.
func (h *handler) deliver(ctx context.Context, d *delivery) result {
	if to := h.joinDigest(ctx, d); to != nil {
		return to
	}
	if to := h.load(ctx, d); to != nil {
		return to
	}
	if !h.routing.find(d) {
		return h.decide(d)
	}
	if d.expired(time.Now()) {
		return d.endEarly(push.Expired, "expired in the queue")
	}
	if h.muted(d) { // before it replaces an older notification that is not muted
		return d.endMuted()
	}
	if to := h.collapse(ctx, d); to != nil {
		return to
	}
	if left := time.Until(d.NotBefore); left > 0 {
		return requeueAfter(left)
	}
	if h.holds.skipClosed(d) {
		return d.requeueUnsent()
	}
	if to := h.admission.skipFullRoutes(d); to != nil {
		return to
	}
	for range maxDepartures {
		if to := h.depart(ctx, d); to != nil {
			return to
		}
	}
	to := requeueForAdmission()
	to.release = slot
	return to
}

// maxDepartures bounds how often a visit admits a delivery that has no connection, and how often a
// push takes new units. With more, the delivery would hold its handler while the provider does not
// answer; it is retried anyway.
const maxDepartures = 4

// depart admits the delivery and sends it. It returns nil if there was no connection in time: the
// delivery keeps its permits and its admission, and asks again.
func (h *handler) depart(ctx context.Context, d *delivery) result {
	decision, err := h.admission.admit(ctx, d)
	switch {
	case errors.Is(err, errBusy), errors.Is(err, errOverQuota):
		return d.requeueUnsent()
	case err != nil:
		return requeueAfterError(err)
	case decision.Status == throttle.Refused:
		return d.endEarly(push.Expired, d.expiryReason(&decision))
	case decision.Status == throttle.Rejected:
		h.crowds.Note(d.App, d.User, d.Category, time.Now())
		return d.rejectLineFull()
	case decision.Status == throttle.Deferred:
		return h.waitInDigest(ctx, d, d.requeueAtSlot(decision))
	}
	if d.expired(time.Now()) {
		return d.endEarly(push.Expired, "expired before it was sent")
	}
	if h.muted(d) {
		return d.endMuted()
	}
	if h.sender.send(ctx, d); d.missed() {
		return nil
	}
	now := time.Now()
	return d.finishAttempt(h.budget(d, now), now, rand.Float64())
}

// decide calls delivery.decide with the present time.
func (h *handler) decide(d *delivery) result {
	now := time.Now()
	return d.decide(h.budget(d, now), now, rand.Float64())
}
