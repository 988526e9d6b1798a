package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/queue"
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

// wasTaken reports whether a provider has taken the notification for one of its targets,
// or may have.
func wasTaken(outcomes []store.TargetOutcome) bool {
	return slices.ContainsFunc(outcomes, func(o store.TargetOutcome) bool { return o.Taken() })
}

// record is the outcomes as the record keeps them.
func (d *delivery) record() []store.TargetOutcome {
	all := push.Unsent(d.Targets)
	for i := range all {
		o := &d.outcomes[i]
		if o.Kind != 0 {
			all[i].Kind, all[i].Reason, all[i].ProviderID = o.Kind.String(), string(o.Reason), o.ProviderID
		}
		all[i].Ambiguous = o.Ambiguous
	}
	return all
}

// unreported is what is recorded of the outcomes when the dead tokens could not be
// reported. Another process, should it come to that, finds these again, and does
// not send to the others.
func (d *delivery) unreported() []store.TargetOutcome {
	all := d.record()
	for i := range d.outcomes {
		if o := &d.outcomes[i]; o.sent && o.Kind == providers.DeadToken {
			all[i].Kind, all[i].Reason, all[i].ProviderID = "", "", ""
		}
	}
	return all
}

// letter is what the dead letters keep of the delivery.
func (d *delivery) letter(c end) *store.Letter {
	return &store.Letter{
		ID: d.ID, State: c.state, Reason: c.reason, Attempts: d.attempts, Error: c.problem,
		Outcomes: d.record(), At: time.Now().UTC(), Queue: d.queue, Job: json.RawMessage(d.job),
	}
}

// unrecorded are notifications that this process has sent, and whose outcomes it
// could not record, by their shard and ID. A later visit records them, and sends nothing.
type unrecorded struct {
	kept *lru.Cache[sent, attempt]
}

// A sent notification is known by its ID in its shard.
type sent struct {
	at *queue.Server
	id string
}

func newUnrecorded() unrecorded {
	kept, _ := lru.New[sent, attempt](queue.MaxUnrecorded) // which fails for sizes below 1
	return unrecorded{kept}
}

// An attempt is what is known of one that is not recorded.
type attempt struct {
	outcomes []outcome
	attempts int
	excused  int
	first    time.Time
	failures int
	replay   bool
}

// keep keeps the delivery's attempt.
func (u unrecorded) keep(d *delivery) {
	u.kept.Add(sent{d.at, d.ID}, attempt{d.outcomes, d.attempts, d.excused, d.first, d.failures, d.replay})
}

// take gives the delivery the attempt of the visit of its job before this one, if
// that is not recorded. After an older one another process has made a visit, and
// may have recorded it. A job that was put back on the queue from the dead letters
// is another one.
func (u unrecorded) take(d *delivery) bool {
	a, ok := u.kept.Get(sent{d.at, d.ID})
	u.kept.Remove(sent{d.at, d.ID})
	if !ok || a.failures+1 != d.failures || a.replay != d.replay {
		return false
	}
	d.outcomes, d.attempts, d.excused, d.first = a.outcomes, a.attempts, a.excused, a.first
	return true
}
