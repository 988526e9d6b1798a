package worker

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// note notes the attempt in the record. It returns false when another worker has
// the job as well, and was faster: what the notification was admitted with may be
// used.
func (s *settling) note(ctx context.Context, d *delivery, outcomes []ledger.TargetOutcome, problem string) (alone bool, err error) {
	err = s.persist(ctx, func() (err error) {
		alone, err = s.Records.Attempt(ctx, d.ID, d.attempts, d.visits, outcomes, problem)
		return err
	})
	return alone, err
}

// reportDead tells the producer of the tokens that this visit found dead. It
// comes before the end is recorded: after a crash in between they are found, and
// reported, again.
func (s *settling) reportDead(ctx context.Context, d *delivery) error {
	var dead []ledger.DeadToken
	for i := range d.outcomes {
		if o := &d.outcomes[i]; o.sent && o.Kind == providers.DeadToken {
			dead = append(dead, ledger.DeadToken{
				App: d.App, User: d.User, Platform: d.Targets[i].Platform, Token: d.Targets[i].Token,
				Reason: string(o.Reason), Since: o.Since, Notification: d.ID, At: time.Now(),
			})
		}
	}
	if len(dead) == 0 {
		return nil
	}
	return s.persist(ctx, func() error { return s.deadTokens.Add(ctx, dead...) })
}

// endedTaken reports whether a provider has taken a notification that has ended
// already, or may have: another worker had its job as well.
func (s *settling) endedTaken(ctx context.Context, d *delivery) bool {
	record, err := s.Records.Lookup(ctx, d.ID)
	return err != nil || slices.ContainsFunc(record.Outcomes, func(o ledger.TargetOutcome) bool { return o.Taken() })
}

// persist repeats a write that failed for a while.
func (s *settling) persist(ctx context.Context, write func() error) error {
	const most = 10 * time.Second
	return s.queue.Persist(ctx, most, write)
}

// plain reports whether there is nothing to tell of a delivery but that it was
// made: one target, at the first attempt, without a wait that no deferral tells of.
func (d *delivery) plain() bool {
	return len(d.outcomes) == 1 && d.attempts == 1 && d.visits == 0 && !d.replay && !d.slotted
}

// record is the outcomes as the record keeps them.
func (d *delivery) record() []ledger.TargetOutcome {
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
func (d *delivery) unreported() []ledger.TargetOutcome {
	all := d.record()
	for i := range d.outcomes {
		if o := &d.outcomes[i]; o.sent && o.Kind == providers.DeadToken {
			all[i].Kind, all[i].Reason, all[i].ProviderID = "", "", ""
		}
	}
	return all
}

// letter is what the dead letters keep of the delivery.
func (d *delivery) letter(c disposition) *ledger.Letter {
	return &ledger.Letter{
		ID: d.ID, State: c.state, Reason: c.reason, Attempts: d.attempts, Error: c.problem,
		Outcomes: d.record(), At: time.Now().UTC(), Queue: d.queue, Job: json.RawMessage(d.job),
	}
}
