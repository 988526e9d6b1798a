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

// A job passes fifteen files of this package. delivery.go reads it, and line.go gives it its turn
// among those of its user and category. Here it goes from one step to the next: it joins or replaces
// another one (merging.go), takes up what is recorded of it (record.go), finds its routes (routing.go),
// and stays if all are closed (holds.go). admit.go asks the limiter for it (slots.go), once it has its
// units (units.go) and places, and send.go sends it, or says why not (reason.go). conclude.go decides
// what becomes of it, and dispose.go does that. trace.go has the spans of all.

// Take implements queue.Handler: a job has its turn in the order of acceptance from here
// on.
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

// aside keeps a job that is no notification as a dead letter.
func aside(ctx context.Context, cause error) queue.Result {
	traceEnd(ctx, store.Malformed)
	reason := store.MalformedNotification
	var malformed *store.MalformedError
	if errors.As(cause, &malformed) {
		reason = malformed.Reason
	}
	return queue.Aside{Reason: reason, Why: cause.Error()}
}

// Handle works off a delivery.
func (h *handler) Handle(ctx context.Context, d *delivery) queue.Result {
	defer h.admission.lines.leave(d)
	if d.term.Lost(ctx) {
		return queue.Lost{}
	}
	// what a provider was sent keeps its places until its end is recorded: while it cannot
	// be, nothing more is sent
	defer func() { h.units.giveBack(ctx, d); d.arrive(); route.Release(d.inside) }()
	return h.settling.dispose(ctx, d, h.unlessMuted(d, h.deliver(ctx, d)))
}

// deliver takes the delivery along the pipeline, and returns what is to become of it.
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
	if h.muted(d) { // before it takes the place of one that is not
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

// departures is how often a delivery is admitted in a visit at most, where it has no connection
// to leave by, and how often a push takes other units. With more it would hold its handler while
// the provider does not answer; a retry comes anyway.
const departures = 4

// depart sends the delivery when it is admitted. It returns nil when it had no connection at its
// instant: it keeps its place and its admission, and asks again.
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

// conclude is delivery.conclude, now.
func (h *handler) conclude(d *delivery) fate {
	now := time.Now()
	return d.conclude(h.budget(d, now), now, rand.Float64())
}
