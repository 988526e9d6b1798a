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

// Take implements queue.Handler: a job has its turn in the order of acceptance from here
// on.
func (h *handler) Take(job queue.Job) queue.Work {
	d, err := decode(&job)
	if err != nil {
		return func(ctx context.Context) error { return h.settling.setAside(ctx, &job, err) }
	}
	if d.back.IsZero() {
		h.Observer.Handled(d.waited(time.Now()))
	}
	h.admission.lines.enter(d)
	return func(ctx context.Context) error {
		h.knowsZone(ctx, d)
		h.tracing.delivery(ctx, d, &job)
		return h.Handle(ctx, d)
	}
}

// Handle works off a delivery.
func (h *handler) Handle(ctx context.Context, d *delivery) error {
	defer h.admission.lines.leave(d)
	if d.term.Lost(ctx) {
		return store.ErrLost
	}
	// what a provider is sent keeps its places until that is recorded: while it cannot
	// be, nothing more is sent
	defer func() { h.units.giveBack(d); d.arrive(); route.Release(d.inside) }()
	defer h.admission.slots.disinherit(ctx, d)
	to := h.keepDigest(ctx, d, h.unlessMuted(d, h.deliver(ctx, d)))
	err := h.settling.dispose(ctx, d, to)
	if err == nil {
		h.forgetDigest(ctx, d, to)
	}
	return err
}

// deliver takes the delivery along the pipeline, and returns what is to become of it.
func (h *handler) deliver(ctx context.Context, d *delivery) disposition {
	if err := d.recallDigest(ctx); err != nil {
		return later(err)
	}
	if to, over := h.load(ctx, d); over {
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
	if superseded, err := h.collapsing.collapse(ctx, d, 0); err != nil {
		return later(err)
	} else if superseded {
		return d.superseded()
	}
	if left := time.Until(d.NotBefore); left > 0 {
		return until(left)
	}
	if to, over := h.joinDigest(ctx, d); over {
		return to
	}
	if h.holds.keep(d) {
		return d.unsent()
	}
	d.needs = d.bulkheads()
	d.expect()
	d.begin()
	if to, busy := h.admission.busy(d); busy {
		return to
	}
	for range departures {
		if to, over := h.depart(ctx, d); over {
			return to
		}
	}
	to := snooze(store.Return{Why: store.TooLate, After: store.Again})
	to.release = slot
	return to
}

// departures is how often a delivery is admitted in a visit at most, where it has no connection
// to leave by.
const departures = 4

// depart sends the delivery when it is admitted. It returns false when it had no
// connection at its instant: it keeps its place and its admission, and asks again.
func (h *handler) depart(ctx context.Context, d *delivery) (to disposition, over bool) {
	decision, err := h.admission.admit(ctx, d)
	switch {
	case errors.Is(err, errBusy):
		return h.admission.foundBusy(d), true
	case errors.Is(err, errOverQuota):
		return d.unsent(), true
	case err != nil:
		return later(err), true
	case decision.Status == throttle.Refused:
		return d.cutShort(push.Expired, d.tooShort(&decision)), true
	case decision.Status == throttle.Rejected:
		return d.lineFull(), true
	case decision.Status == throttle.Deferred:
		return h.postpone(ctx, d, decision), true
	}
	if d.expired(time.Now()) {
		return d.cutShort(push.Expired, "expired before it was sent"), true
	}
	if h.muted(d) {
		return d.silence(), true
	}
	if to, over := h.sealDigest(ctx, d); over {
		return to, true
	}
	if h.sending.send(ctx, d); d.missed() {
		return to, false
	}
	now := time.Now()
	return d.settle(h.budget(d, now), now, rand.Float64()), true
}

// conclude is delivery.conclude, now.
func (h *handler) conclude(d *delivery) disposition {
	now := time.Now()
	return d.conclude(h.budget(d, now), now, rand.Float64())
}
