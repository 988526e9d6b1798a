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
// limiter (slots.go). send.go sends it, or records why not (reason.go). conclude.go decides the result of
// the visit, and dispose.go applies it. trace.go has the spans.

// Take implements queue.Handler. It gives the job its turn, in the order of acceptance.
func (h *handler) Take(job queue.Job) queue.Work {
	d, err := decode(&job)
	if err != nil {
		return func(ctx context.Context) queue.Result { return aside(ctx, err) }
	}
	if d.back.IsZero() {
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
	return queue.Aside{Reason: reason, Why: cause.Error()}
}

// Handle takes the delivery through its visit.
func (h *handler) Handle(ctx context.Context, d *delivery) queue.Result {
	defer h.admission.lines.leave(d)
	if d.term.Lost(ctx) {
		return queue.Lost{}
	}
	// A sent delivery holds its permits until its outcome is recorded: a Redis that refuses
	// writes thus stops the sending.
	defer func() { h.units.giveBack(ctx, d); d.arrive(); route.Release(d.inside) }()
	return h.settling.dispose(ctx, d, h.unlessMuted(d, h.deliver(ctx, d)))
}

// deliver takes the delivery through the steps of the pipeline, until one returns a fate.
func (h *handler) deliver(ctx context.Context, d *delivery) fate {
	if to := h.joinDigest(ctx, d); to != nil {
		return to
	}
	if to := h.load(ctx, d); to != nil {
		return to
	}
	if !h.routing.find(d) {
		return h.conclude(d)
	}
	if d.expired(time.Now()) {
		return d.cutShort(push.Expired, "expired in the queue")
	}
	if h.muted(d) { // before it replaces an older one that is not muted
		return d.silence()
	}
	if to := h.collapse(ctx, d); to != nil {
		return to
	}
	if left := time.Until(d.NotBefore); left > 0 {
		return until(left)
	}
	if h.holds.keep(d) {
		return d.unsent()
	}
	if to := h.admission.fit(d); to != nil {
		return to
	}
	for range departures {
		if to := h.depart(ctx, d); to != nil {
			return to
		}
	}
	to := tooLate()
	to.release = slot
	return to
}

// departures bounds how often a visit admits a delivery that has no connection, and how often a
// push takes new units. With more, the delivery would hold its handler while the provider does not
// answer; it is retried anyway.
const departures = 4

// depart admits the delivery and sends it. It returns nil if there was no connection in time: the
// delivery keeps its permits and its admission, and asks again.
func (h *handler) depart(ctx context.Context, d *delivery) fate {
	decision, err := h.admission.admit(ctx, d)
	switch {
	case errors.Is(err, errBusy), errors.Is(err, errOverQuota):
		return d.unsent()
	case err != nil:
		return later(err)
	case decision.Status == throttle.Refused:
		return d.cutShort(push.Expired, d.tooShort(&decision))
	case decision.Status == throttle.Rejected:
		h.crowds.Note(d.App, d.User, d.Category, time.Now())
		return d.lineFull()
	case decision.Status == throttle.Deferred:
		return h.waitInDigest(ctx, d, d.postpone(decision))
	}
	if d.expired(time.Now()) {
		return d.cutShort(push.Expired, "expired before it was sent")
	}
	if h.muted(d) {
		return d.silence()
	}
	if h.sending.send(ctx, d); d.missed() {
		return nil
	}
	now := time.Now()
	return d.settle(h.budget(d, now), now, rand.Float64())
}

// conclude calls delivery.conclude with the present time.
func (h *handler) conclude(d *delivery) fate {
	now := time.Now()
	return d.conclude(h.budget(d, now), now, rand.Float64())
}
