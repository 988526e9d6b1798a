package worker

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/pushpace/pushpace/internal/base/logdedup"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/queue"
)

// finisher applies the results of visits.
type finisher struct {
	*Options
	deadTokens *store.DeadTokens
	slots      *slots
	events     *events
	repeats    *logdedup.Log
	unrecorded unrecorded
}

// apply updates record, slot, log, trace and metrics with the result of the visit, and returns the
// queue's result.
func (s *finisher) apply(ctx context.Context, d *delivery, to result) queue.Result {
	if !d.sent() && d.term.Lost(ctx) {
		return queue.Lost{}
	}
	if d.hasAttempt {
		if err := s.reportDead(ctx, d); err != nil && d.failures < s.Attempts {
			s.unrecorded.keep(d)
			return queue.Postponed{PutOff: store.PutOff{Return: requeueUnrecorded(err, d.failures), Attempt: d.attempt(d.unreported(), "")}}
		} else if err != nil {
			s.Log.LogAttrs(ctx, slog.LevelError, "dead tokens could not be reported: the next notification to them will find them again",
				slog.String("id", d.ID), slog.String("app", d.App), slog.Any("error", err))
		}
	}
	switch to := to.(type) {
	case end:
		return s.end(ctx, d, to)
	case requeue:
		return s.requeue(ctx, d, to)
	default:
		return s.retryFree(d, to.(endedElsewhere).unfreed)
	}
}

// requeue returns the job to the queue.
func (s *finisher) requeue(ctx context.Context, d *delivery, to requeue) queue.Result {
	if d.hasAttempt && to.release != nothing && (d.used() || !s.has(ctx, d)) {
		to.release = nothing
	}
	switch to.release {
	case slot:
		s.slots.giveBack(ctx, d, d.used())
	case slotQuietly:
		_, _ = s.slots.free(ctx, d, d.used())
	}
	if to.skipped.isSet() {
		to.Return, to.park = d.requeueSkipped(to.skipped)
		if to.After == store.MinParkTime {
			to.After = store.DrawParkTime()
		}
	}
	to.After = d.orExpired(to.After, time.Now())
	to.First = d.first
	to.Failed = to.Failed || d.hasAttempt && !d.counted
	result := queue.Postponed{PutOff: store.PutOff{Return: to.Return, Park: to.park}}
	if p := &to.deferral; p.Status == throttle.Deferred {
		s.Observer.Deferred(d.App, d.Category, *p)
		result.Deferral = &store.Deferral{Until: p.At, Scope: p.Scope, Rule: p.Rule}
	}
	if d.hasAttempt {
		result.Attempt, result.Unnoted = d.attempt(d.record(), to.problem), func() { s.unrecorded.keep(d) }
	}
	return result
}

// has reports whether this visit still owns the job. After a failover another visit may own it, and
// may have used the admission.
func (s *finisher) has(ctx context.Context, d *delivery) bool {
	has, err := d.at.Records.Holds(ctx, &store.Job{ID: d.ID, Queue: d.queue, Claim: d.hand})
	return has && err == nil
}

func (d *delivery) attempt(outcomes []store.TargetOutcome, problem string) *store.Attempt {
	return &store.Attempt{Number: d.attempts, Excused: d.excused, Outcomes: outcomes, Error: problem}
}

// requeueSkipped returns how a job with skipped targets returns to the queue. The job is due when one of
// its park names has room, or at the earliest time that a target waits for.
func (d *delivery) requeueSkipped(deciding skip) (to store.Return, park string) {
	to = deciding.storeReturn()
	to.After = store.MinParkTime
	var names []string
	for i := range d.outcomes {
		s := d.outcomes[i].skip
		if name := s.parkName(d.routes[i]); name != "" {
			names = append(names, name)
		} else if s.isSet() {
			to.After = min(to.After, s.left)
		}
	}
	return to, store.ParkName(names)
}

// end records the end of the notification. If several visits end a notification, only the first end
// counts.
func (s *finisher) end(ctx context.Context, d *delivery, c end) queue.Result {
	traceEnd(ctx, c.state)
	if c.state == push.Delivered && d.plain() {
		s.events.ended(ctx, d, c.state)
		return queue.Ended{Outcomes: d.record()}
	}
	over := store.End{State: c.state, Outcomes: d.record(), Error: c.problem, Attempts: d.attempts, DeadTokens: c.dead, App: d.App}
	if c.state.Dead() {
		over.Letter = d.letter(c)
	}
	first := false
	var unfreed error
	err := s.persist(ctx, d, func() (err error) {
		first, err = d.at.Records.Settle(ctx, d.ID, &over)
		return err
	})
	switch {
	case err != nil && d.sent():
		s.unrecorded.keep(d)
		return queue.Postponed{PutOff: store.PutOff{Return: requeueUnrecorded(err, d.failures)}}
	case err != nil:
		return queue.Postponed{PutOff: store.PutOff{Return: requeueAfterError(err).Return}}
	case !d.used() || !d.sent():
		unfreed = s.slots.giveBack(ctx, d, d.used() || !first && s.endedTaken(ctx, d))
	}
	if first {
		s.events.ended(ctx, d, c.state)
	}
	if c.state.Dead() {
		s.repeats.Write(ctx, s.Log, slog.LevelWarn, "notification "+string(c.state), []slog.Attr{slog.String("reason", c.reason)},
			slog.String("id", d.ID), slog.String("app", d.App), slog.Int("attempts", d.attempts), slog.String("error", c.problem))
	}
	return s.retryFree(d, unfreed)
}

// retryFree ends the job. If the job's slot could not be given back, retryFree instead returns the job to
// the queue, and the next visit retries. After Attempts failures the slot stays until the limiter prunes
// it.
func (s *finisher) retryFree(d *delivery, err error) queue.Result {
	if err == nil || d.failures >= s.Attempts {
		return queue.Ended{}
	}
	to := requeueAfterError(err).Return
	to.After, to.Failed = max(store.RetryDelay, backoffAfter(d.failures, rand.Float64())), true
	return queue.Postponed{PutOff: store.PutOff{Return: to}}
}

// requeueUnrecorded returns the job to the queue because the outcome of its push is not recorded. The
// return counts as a failure, so that the next visit reads the record before it sends anything.
func requeueUnrecorded(cause error, failures int) store.Return {
	return store.Return{Why: store.Unrecorded, Detail: cause.Error(), After: max(store.RetryDelay, backoffAfter(failures, rand.Float64())), Failed: true}
}

// persist retries the write until it succeeds or times.record has passed; zero stands for 10 s.
func (s *finisher) persist(ctx context.Context, d *delivery, write func() error) error {
	return d.at.Persist(ctx, cmp.Or(s.times.record, 10*time.Second), write)
}

// reportDead reports to the producer the tokens that this visit found dead. Call it before the end
// is recorded: after a crash between the two steps, the next visit finds and reports the tokens
// again.
func (s *finisher) reportDead(ctx context.Context, d *delivery) error {
	var dead []store.DeadToken
	for i := range d.outcomes {
		if o := &d.outcomes[i]; o.sent && o.Kind == providers.DeadToken {
			dead = append(dead, store.DeadToken{
				App: d.App, User: d.User, Platform: d.Targets[i].Platform, Token: d.Targets[i].Token, FID: d.Targets[i].FID,
				Reason: string(o.Reason), Since: o.Since, Notification: d.ID, At: time.Now(),
			})
		}
	}
	if len(dead) == 0 {
		return nil
	}
	return s.persist(ctx, d, func() error { return s.deadTokens.Add(ctx, dead...) })
}

// endedTaken reports whether a provider has or may have accepted a notification that another worker
// has ended.
func (s *finisher) endedTaken(ctx context.Context, d *delivery) bool {
	record, err := d.at.Records.Lookup(ctx, d.ID)
	return err != nil || wasTaken(record.Outcomes)
}

// plain reports whether the record needs no details: the delivery had one target, its first attempt
// succeeded, and it carries no other notifications.
func (d *delivery) plain() bool {
	return len(d.outcomes) == 1 && d.attempts == 1 && d.failures == 0 && !d.replay && len(d.carried) == 0
}
