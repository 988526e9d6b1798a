package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/queue"
)

// reportDead tells the producer of the tokens that this visit found dead. It
// comes before the end is recorded: after a crash in between they are found, and
// reported, again.
func (s *settling) reportDead(ctx context.Context, d *delivery) error {
	var dead []store.DeadToken
	for i := range d.outcomes {
		if o := &d.outcomes[i]; o.sent && o.Kind == providers.DeadToken {
			dead = append(dead, store.DeadToken{
				App: d.App, User: d.User, Platform: d.Targets[i].Platform, Token: d.Targets[i].Token,
				Reason: string(o.Reason), Since: o.Since, Notification: d.ID, At: time.Now(),
			})
		}
	}
	if len(dead) == 0 {
		return nil
	}
	return s.persist(ctx, d, func() error { return s.deadTokens.Add(ctx, dead...) })
}

// endedTaken reports whether a provider has taken a notification that has ended
// already, or may have: another worker had its job as well.
func (s *settling) endedTaken(ctx context.Context, d *delivery) bool {
	record, err := d.at.Records.Lookup(ctx, d.ID)
	return err != nil || wasTaken(record.Outcomes)
}

// wasTaken reports whether a provider has taken the notification for one of its targets,
// or may have.
func wasTaken(outcomes []store.TargetOutcome) bool {
	return slices.ContainsFunc(outcomes, func(o store.TargetOutcome) bool { return o.Taken() })
}

// persist repeats a write that failed for a while.
func (s *settling) persist(ctx context.Context, d *delivery, write func() error) error {
	return d.at.Persist(ctx, cmp.Or(s.times.record, 10*time.Second), write)
}

// plain reports whether there is nothing to tell of a delivery but that it was
// made: one target, at the first attempt, and no others in a digest.
func (d *delivery) plain() bool {
	return len(d.outcomes) == 1 && d.attempts == 1 && d.failures == 0 && !d.replay && len(d.carried) == 0
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
