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

// load reads the record if an earlier visit has failed, or the job is a replay. It returns a result if
// nothing is left to send.
func (h *handler) load(ctx context.Context, d *delivery) result {
	if d.failures == 0 && !d.replay {
		return nil
	}
	if d.at.IsUnrecorded(d.ID) {
		return endedElsewhere{} // the queue settles the notification when this job ends
	}
	if h.finisher.unrecorded.take(d) {
		h.routing.find(d)
		d.hasAttempt, d.counted = true, true
		return h.decide(d)
	}
	record, err := d.at.Records.Lookup(ctx, d.ID)
	switch {
	case errors.Is(err, push.ErrUnknownID):
		if err := d.at.Records.Arrive(ctx, d.ID, d.queue, store.Facts{App: d.App, User: d.User, Category: d.Category, NotBefore: d.NotBefore, ExpiresAt: d.ExpiresAt}); err != nil {
			return requeueAfterError(err)
		}
	case err != nil:
		return requeueAfterError(err)
	case record.State.Ended(): // its worker may have crashed before it gave the slot back
		return endedElsewhere{h.slots.giveBack(ctx, d, wasTaken(record.Outcomes))}
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
	if lost := d.failures - d.attempts; lost > h.Attempts { // the job crashes its workers, or its attempts cannot be recorded
		to := d.endEarly(push.Exhausted, fmt.Sprintf("the outcomes of %d attempts are not recorded", lost))
		to.reason = string(providers.Unrecorded)
		return to
	}
	return nil
}

// recorded returns the outcome of an earlier visit's record.
func recorded(r store.TargetOutcome) (o outcome) {
	o.Ambiguous = r.Ambiguous
	for kind := providers.Delivered; kind <= providers.Misconfigured; kind++ {
		if kind.String() == r.Kind {
			o.Kind, o.Reason, o.ProviderID = kind, providers.Reason(r.Reason), r.ProviderID
		}
	}
	return o
}

// doubt marks the open targets as ambiguous if an earlier visit may have sent to them and left no
// record: its worker crashed, or could not write.
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

// wasTaken reports whether a provider has or may have accepted the notification for one of its
// targets.
func wasTaken(outcomes []store.TargetOutcome) bool {
	return slices.ContainsFunc(outcomes, func(o store.TargetOutcome) bool { return o.Taken() })
}

// record returns the outcomes in the record's form.
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

// unreported is record without the dead tokens, which could not be reported. A later visit then finds the
// dead tokens again, and does not repeat the other sends.
func (d *delivery) unreported() []store.TargetOutcome {
	all := d.record()
	for i := range d.outcomes {
		if o := &d.outcomes[i]; o.sent && o.Kind == providers.DeadToken {
			all[i].Kind, all[i].Reason, all[i].ProviderID = "", "", ""
		}
	}
	return all
}

// letter returns the delivery's dead letter.
func (d *delivery) letter(c end) *store.Letter {
	return &store.Letter{
		ID: d.ID, State: c.state, Reason: c.reason, Attempts: d.attempts, Error: c.problem,
		Outcomes: d.record(), At: time.Now().UTC(), Queue: d.queue, Job: json.RawMessage(d.job),
	}
}

// unrecorded are attempts of this process with outcomes that it could not record. A later visit
// records them and sends nothing.
type unrecorded struct {
	kept *lru.Cache[attemptKey, attempt]
}

// An attemptKey identifies a notification: IDs are unique within a shard.
type attemptKey struct {
	at *queue.Server
	id string
}

func newUnrecorded() unrecorded {
	kept, _ := lru.New[attemptKey, attempt](queue.MaxUnrecorded) // fails only for sizes below 1
	return unrecorded{kept}
}

// An attempt is an attempt that is not recorded yet.
type attempt struct {
	outcomes []outcome
	attempts int
	excused  int
	first    time.Time
	failures int
	replay   bool
}

func (u unrecorded) keep(d *delivery) {
	u.kept.Add(attemptKey{d.at, d.ID}, attempt{d.outcomes, d.attempts, d.excused, d.first, d.failures, d.replay})
}

// take loads the unrecorded attempt of the job's previous visit into the delivery. It drops an attempt of
// an older visit, as a later visit in another process may have recorded it. It also drops the attempt of
// a job that was since requeued from the dead letters.
func (u unrecorded) take(d *delivery) bool {
	a, ok := u.kept.Get(attemptKey{d.at, d.ID})
	u.kept.Remove(attemptKey{d.at, d.ID})
	if !ok || a.failures+1 != d.failures || a.replay != d.replay {
		return false
	}
	d.outcomes, d.attempts, d.excused, d.first = a.outcomes, a.attempts, a.excused, a.first
	return true
}
