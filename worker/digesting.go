package worker

import (
	"context"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/control"
)

// recallDigest has a delivery that was visited before be the push of what it carries.
func (d *delivery) recallDigest(ctx context.Context) error {
	if d.digest == nil || d.failures == 0 && !d.replay && d.back.IsZero() {
		return nil
	}
	if err := d.digest.Look(ctx); err != nil {
		return err
	}
	d.adopt()
	return nil
}

// adopt has the delivery be the push of its digest, as far as that is known, and reports
// whether it goes to others than before or lives longer.
func (d *delivery) adopt() (changed bool) {
	n := d.digest.Push()
	lives, same := d.ExpiresAt, slices.Equal(n.Targets, d.Targets)
	d.Notification = n
	if !same {
		doubtful := slices.ContainsFunc(d.outcomes, func(o outcome) bool { return o.Ambiguous })
		d.outcomes = make([]outcome, len(n.Targets))
		for i := range d.outcomes {
			d.outcomes[i].Ambiguous = doubtful
		}
	}
	if others := d.digest.Others(); others != nil {
		told := &push.Job{Notification: n, AcceptedAt: d.accepted, Replay: d.replay, Digested: others}
		if job, err := push.Encode(told); err == nil { // which validation has made sure of
			d.job = job // that a dead letter keeps
		}
	}
	return !same || !lives.Equal(n.ExpiresAt)
}

// joinDigest has the delivery join one that waits with its digest's key.
func (h *handler) joinDigest(ctx context.Context, d *delivery) fate {
	if d.digest == nil || d.digest.Carries() || h.passes(d) {
		return nil
	}
	return h.join(ctx, d, false, 0)
}

// passes reports whether the delivery goes by itself: its category is exempt.
func (h *handler) passes(d *delivery) bool {
	return h.Limits.Passes(control.LevelOf(d.Notification), false)
}

// join is digest.Part.Join, and ends the visit of a delivery that has joined another one.
func (h *handler) join(ctx context.Context, d *delivery, carry bool, wait time.Duration) fate {
	into, ended, err := d.digest.Join(ctx, carry, wait)
	switch {
	case err != nil:
		return later(err)
	case ended:
		return endedMeanwhile()
	case into == "":
		return nil
	}
	h.settling.events.ended(ctx, d, push.Digested)
	if d.asked || d.failures > 0 || !d.back.IsZero() { // else it has asked for no slot
		return elsewhere{h.slots.giveBack(ctx, d, false)}
	}
	return elsewhere{}
}

// endedMeanwhile has the next visit find how another worker has ended the notification.
func endedMeanwhile() back {
	return back{Return: store.Return{Why: store.Failed, Detail: "another worker has ended it", After: store.Again, Failed: true}}
}

// sealDigest has nobody join the delivery any more, which is about to be sent. One that is
// to go to others than it was admitted for comes back, and goes with its admission.
func (h *handler) sealDigest(ctx context.Context, d *delivery) fate {
	if d.digest == nil {
		return nil
	}
	ended, err := d.digest.Seal(ctx)
	switch {
	case err != nil:
		return later(err)
	case ended:
		return endedMeanwhile()
	case d.adopt():
		return tooLate()
	}
	return nil
}

// keepDigest updates the digest before the fate is carried out. A delivery that waits for a limit or
// a provider opens a digest or joins another one. A delivery that ends closes its digest; if others
// have joined meanwhile, it comes back instead.
func (h *handler) keepDigest(ctx context.Context, d *delivery, to fate) fate {
	if d.digest == nil || d.sent() { // what was sent was sealed
		return to
	}
	var other fate
	switch to := to.(type) {
	case end:
		other = h.sealDigest(ctx, d)
	case back:
		waits := to.deferral.Status == throttle.Deferred || to.kept.some()
		if d.digest.Carries() || waits && !h.passes(d) {
			other = h.join(ctx, d, waits, max(0, to.After))
		}
	}
	if other != nil {
		return other
	}
	return to // it carries, or waits by itself
}

// forgetDigest lets go of what a delivery has told of, once it has ended.
func (h *handler) forgetDigest(ctx context.Context, d *delivery, to fate) {
	if _, returns := to.(back); d.digest != nil && d.digest.Others() != nil && !returns {
		d.at.Records.Forget(ctx, d.ID)
	}
}
