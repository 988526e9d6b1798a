package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// load reads the record if an earlier visit has failed, or the job is a replay. It returns a fate if
// nothing is left to do.
func (h *handler) load(ctx context.Context, d *delivery) fate {
	if d.failures == 0 && !d.replay {
		return nil
	}
	if d.at.Settling(d.ID) {
		return elsewhere{} // it is settled when this job ends
	}
	if h.settling.unrecorded.take(d) {
		h.routing.find(d)
		d.tried, d.counted = true, true
		return h.conclude(d)
	}
	record, err := d.at.Records.Lookup(ctx, d.ID)
	switch {
	case errors.Is(err, push.ErrUnknownID):
		if err := d.at.Records.Arrive(ctx, d.ID, d.queue, store.Facts{App: d.App, User: d.User, Category: d.Category, NotBefore: d.NotBefore, ExpiresAt: d.ExpiresAt}); err != nil {
			return later(err)
		}
	case err != nil:
		return later(err)
	case record.State.Ended(): // maybe by a worker that crashed before it gave the slot back
		return elsewhere{h.slots.giveBack(ctx, d, wasTaken(record.Outcomes))}
	default:
		if d.attempts, d.excused = record.Attempts, record.Excused; d.first.IsZero() {
			d.first = record.FirstAttempt
		}
		for i, o := range record.Outcomes {
			if i < len(d.outcomes) {
				d.outcomes[i] = recorded(o)
			}
		}
	}
	d.doubt()
	if lost := d.failures - d.attempts; lost > h.Attempts { // it crashes its workers, or cannot be settled
		to := d.cutShort(push.Exhausted, fmt.Sprintf("what became of %d attempts is not recorded", lost))
		to.reason = string(providers.Unrecorded)
		return to
	}
	return nil
}

// recorded is an outcome as an earlier visit has recorded it.
func recorded(r store.TargetOutcome) (o outcome) {
	o.Ambiguous = r.Ambiguous
	for kind := providers.Delivered; kind <= providers.Misconfigured; kind++ {
		if kind.String() == r.Kind {
			o.Kind, o.Reason, o.ProviderID = kind, providers.Reason(r.Reason), r.ProviderID
		}
	}
	return o
}

// doubt marks what a visit may have sent whose end is not recorded: its worker
// has crashed, or could not tell.
func (d *delivery) doubt() {
	if d.failures <= d.attempts {
		return
	}
	for i := range d.outcomes {
		if o := &d.outcomes[i]; o.open() {
			o.Ambiguous = true
		}
	}
}
