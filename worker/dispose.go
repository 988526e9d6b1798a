package worker

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/watch"
)

// dispose carries out what is to become of the job: the records, the slot, the log,
// the trace, the metrics, and what asynq is to do, once.
func (h *handler) dispose(ctx context.Context, d *delivery, to disposition) error {
	if !d.sent() && d.term.Lost(ctx) {
		return queue.ErrLost
	}
	if to.attempt {
		if err := h.reportDead(ctx, d); err != nil && d.visits < h.Attempts {
			h.unrecorded.keep(d)
			_, notNoted := h.note(ctx, d, d.unreported(), to.problem)
			return unsettled(errors.Join(err, notNoted), d.visits)
		} else if err != nil {
			h.Log.LogAttrs(ctx, slog.LevelError, "dead tokens are not reported: the next notification to them finds them again",
				slog.String("id", d.ID), slog.String("app", d.App), slog.Any("error", err))
		}
	}
	switch to.state {
	case "":
		return nil
	case push.Waiting:
		return h.bringBack(ctx, d, to)
	}
	return h.end(ctx, d, to)
}

// bringBack returns the job to the queue.
func (h *handler) bringBack(ctx context.Context, d *delivery, to disposition) error {
	if to.attempt {
		alone, err := h.note(ctx, d, d.record(), to.problem)
		if err != nil {
			h.unrecorded.keep(d)
			return unsettled(err, d.visits)
		}
		if !alone || d.used() {
			to.release = nothing
		}
	}
	if p := &to.deferral; p.Status == throttle.Deferred {
		h.Observer.Deferred(d.App, d.Category, *p)
		ended, err := h.Records.Defer(ctx, d.ID, p.At, p.Scope, p.Rule)
		if ended { // by another worker, that has taken over the job: nobody would come for the slot
			h.giveBack(ctx, d, true)
			return nil
		}
		if err != nil {
			h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "deferral not recorded", slog.String("id", d.ID), slog.Any("error", err))
		}
	}
	var moved []throttle.Booking
	switch to.release {
	case slot:
		h.giveBack(ctx, d, d.used())
	case slotQuietly:
		moved = h.freeSlot(ctx, d, d.used())
	}
	if to.blocked && !h.rememberBlocked(ctx, d, moved) {
		to.back.After = min(to.back.After, unnotedBlock)
	}
	h.tell(d, &to)
	to.back.Failed = to.attempt && !to.counted
	return &to.back
}

// end settles the notification, once.
func (h *handler) end(ctx context.Context, d *delivery, c disposition) error {
	h.traceEnd(ctx, c.state)
	if c.state == push.Delivered && d.plain() && h.queue.Settle(d.ID, d.record()) {
		h.ended(ctx, d, &c)
		return nil
	}
	end := ledger.End{State: c.state, Outcomes: d.record(), Error: c.problem, Attempts: d.attempts, DeadTokens: c.dead}
	if d.slotted {
		end.Deferrals = 1
	}
	if c.state.Dead() {
		end.Letter = d.letter(c)
	}
	first := false
	err := h.persist(ctx, func() (err error) {
		first, err = h.Records.Settle(ctx, d.ID, &end)
		return err
	})
	switch {
	case err != nil && d.sent():
		h.unrecorded.keep(d)
		return unsettled(err, d.visits)
	case err != nil:
		return &queue.Return{Why: queue.Failed, Detail: err.Error(), After: queue.Again}
	case !d.used() || !d.sent():
		h.giveBack(ctx, d, d.used() || !first && h.endedTaken(ctx, d))
	}
	if first {
		h.ended(ctx, d, &c)
	}
	if c.state.Dead() {
		h.repeats.Tell(ctx, h.Log, slog.LevelWarn, "notification "+string(c.state), []slog.Attr{slog.String("reason", c.reason)},
			slog.String("id", d.ID), slog.String("app", d.App), slog.Int("attempts", d.attempts), slog.String("error", c.problem))
	}
	return nil
}

// unsettled is a new visit, after that many others, because what was sent is not
// recorded. It counts on asynq's side: the next visit looks at the record before
// anything is sent.
func unsettled(cause error, visits int) error {
	return &queue.Return{Why: queue.Unrecorded, Detail: cause.Error(), After: max(queue.Again, backoffAfter(visits)), Failed: true}
}

// note notes the attempt in the record. It returns false when another worker has
// the job as well, and was faster: what the notification was admitted with may be
// used.
func (h *handler) note(ctx context.Context, d *delivery, outcomes []ledger.TargetOutcome, problem string) (alone bool, err error) {
	err = h.persist(ctx, func() (err error) {
		alone, err = h.Records.Attempt(ctx, d.ID, d.attempts, d.visits, outcomes, problem)
		return err
	})
	return alone, err
}

// reportDead tells the producer of the tokens that this visit found dead. It
// comes before the end is recorded: after a crash in between they are found, and
// reported, again.
func (h *handler) reportDead(ctx context.Context, d *delivery) error {
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
	return h.persist(ctx, func() error { return h.deadTokens.Add(ctx, dead...) })
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

// plain reports whether there is nothing to tell of a delivery but that it was
// made: one target, at the first attempt, without a wait that no deferral tells of.
func (d *delivery) plain() bool {
	return len(d.outcomes) == 1 && d.attempts == 1 && d.visits == 0 && !d.replay && !d.slotted
}

// sent reports whether this visit has sent anything.
func (d *delivery) sent() bool {
	return slices.ContainsFunc(d.outcomes, func(o outcome) bool { return o.sent })
}

// endedTaken reports whether a provider has taken a notification that has ended
// already, or may have: another worker had its job as well.
func (h *handler) endedTaken(ctx context.Context, d *delivery) bool {
	record, err := h.Records.Lookup(ctx, d.ID)
	return err != nil || slices.ContainsFunc(record.Outcomes, func(o ledger.TargetOutcome) bool { return o.Taken() })
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

// persist repeats a write that failed for a while.
func (h *handler) persist(ctx context.Context, write func() error) error {
	return h.queue.Persist(ctx, 10*time.Second, write)
}

// letter is what the dead letters keep of the delivery.
func (d *delivery) letter(c disposition) *ledger.Letter {
	return &ledger.Letter{
		ID: d.ID, State: c.state, Reason: c.reason, Attempts: d.attempts, Error: c.problem,
		Outcomes: d.record(), At: time.Now().UTC(), Queue: d.queue, Job: json.RawMessage(d.job),
	}
}

// ended counts the end of a delivery, and at the level debug tells of it.
func (h *handler) ended(ctx context.Context, d *delivery, c *disposition) {
	h.Observer.Ended(c.state)
	h.tell(d, c)
	if !h.Log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	h.Log.LogAttrs(ctx, slog.LevelDebug, "notification ended", slog.String("id", d.ID), slog.String("app", d.App),
		slog.Any("platforms", d.platforms()), slog.String("outcome", string(c.state)), slog.Int64("ms", time.Since(d.accepted).Milliseconds()))
}

// platforms are those of the targets, each once.
func (d *delivery) platforms() (all []push.Platform) {
	for i := range d.Targets {
		if p := d.Targets[i].Platform; !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// tell has those who watch, if anybody does, know what becomes of the delivery.
func (h *handler) tell(d *delivery, to *disposition) {
	if !h.feed.Watched() {
		return
	}
	e := watch.Event{
		At: time.Now().UTC(), State: to.state, Reason: to.reason, ID: d.ID, App: d.App, User: d.User,
		Category: d.Category, Priority: d.Priority, Platforms: d.platforms(),
	}
	if to.state == push.Waiting {
		e.For = string(control.ReturnedFor(e.At, to.back, d.Notification, h.inForce.Load().Operators))
		if !to.blocked { // what is blocked is woken
			e.Until = e.At.Add(to.back.After)
		}
		if p := &to.deferral; p.Rule != "" {
			e.Reason = p.Scope + " " + p.Rule
		}
	}
	h.feed.Tell(e)
}

// endedByAnother is ended for a notification that was taken from the queue: by a
// newer one, or a cancel.
func (h *handler) endedByAnother(ctx context.Context, t *ledger.Taken) {
	h.Observer.Ended(t.State)
	if h.feed.Watched() {
		h.feed.Tell(watch.Event{At: time.Now().UTC(), State: t.State, ID: t.ID, App: t.App, User: t.User, Category: t.Category})
	}
	h.Log.LogAttrs(ctx, slog.LevelDebug, "notification ended", slog.String("id", t.ID), slog.String("app", t.App), slog.String("outcome", string(t.State)))
}
