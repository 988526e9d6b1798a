package worker

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/pushpace/pushpace/internal/base/repeats"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/route"
)

// settling carries out what is to become of jobs.
type settling struct {
	*Options
	deadTokens *store.DeadTokens
	holds      *holds
	slots      *slots
	events     *events
	repeats    *repeats.Log
	unrecorded unrecorded
}

// dispose carries out what is to become of the job: the records, the slot, the log,
// the trace, the metrics, and what the queue is to do, once.
func (s *settling) dispose(ctx context.Context, d *delivery, to disposition) error {
	if !d.sent() && d.term.Lost(ctx) {
		return store.ErrLost
	}
	if to.attempt {
		if err := s.reportDead(ctx, d); err != nil && d.visits < s.Attempts {
			s.unrecorded.keep(d)
			_, notNoted := s.note(ctx, d, d.unreported(), to.problem)
			return unsettled(errors.Join(err, notNoted), d.visits)
		} else if err != nil {
			s.Log.LogAttrs(ctx, slog.LevelError, "dead tokens are not reported: the next notification to them finds them again",
				slog.String("id", d.ID), slog.String("app", d.App), slog.Any("error", err))
		}
	}
	switch to.state {
	case "":
		return s.freeLater(d, to.unfreed)
	case push.Waiting:
		return s.bringBack(ctx, d, to)
	}
	return s.end(ctx, d, to)
}

// bringBack returns the job to the queue.
func (s *settling) bringBack(ctx context.Context, d *delivery, to disposition) error {
	if to.attempt {
		alone, err := s.note(ctx, d, d.record(), to.problem)
		if err != nil {
			s.unrecorded.keep(d)
			return unsettled(err, d.visits)
		}
		if !alone || d.used() {
			to.release = nothing
		}
	}
	if p := &to.deferral; p.Status == throttle.Deferred {
		s.Observer.Deferred(d.App, d.Category, *p)
		ended, err := d.at.Records.Defer(ctx, d.ID, p.At, p.Scope, p.Rule)
		if ended { // by another worker, that has taken over the job: nobody would come for the slot
			s.slots.giveBack(ctx, d, true)
			return nil
		}
		if err != nil {
			s.RedisLog.LogAttrs(ctx, slog.LevelWarn, "deferral not recorded", slog.String("id", d.ID), slog.Any("error", err))
		}
	}
	switch to.release {
	case slot:
		s.slots.giveBack(ctx, d, d.used())
	case slotQuietly:
		_, _ = s.slots.free(ctx, d, d.used())
	}
	if to.kept.some() {
		to.back = s.keptBack(d, to.kept, time.Now())
		if !s.holds.remember(ctx, d) {
			to.back.After = min(to.back.After, unnotedLook)
		}
	}
	to.back.First = d.first
	to.back.Failed = to.back.Failed || to.attempt && !to.counted
	return &to.back
}

// keptBack is how a job returns that is kept by that. Those that come back by themselves
// do so one after another: each moves the next one's instant on.
func (s *settling) keptBack(d *delivery, kept skip, now time.Time) store.Return {
	var look time.Duration
	switch {
	case kept.reason == noUnits:
		look = kept.pool.Back()
	case kept.woken():
		look = s.holds.look(d.queue, now)
	}
	back := kept.back(look, route.QuotaOf(kept.pool))
	back.After = d.orExpired(back.After, now)
	return back
}

// end settles the notification, once.
func (s *settling) end(ctx context.Context, d *delivery, c disposition) error {
	traceEnd(ctx, c.state)
	if c.state == push.Delivered && d.plain() {
		d.at.Settle(d.ID, d.record())
		s.events.ended(ctx, d, &c)
		return nil
	}
	end := store.End{State: c.state, Outcomes: d.record(), Error: c.problem, Attempts: d.attempts, DeadTokens: c.dead, App: d.App}
	if c.state.Dead() {
		end.Letter = d.letter(c)
	}
	first := false
	var unfreed error
	err := s.persist(ctx, d, func() (err error) {
		first, err = d.at.Records.Settle(ctx, d.ID, &end)
		return err
	})
	switch {
	case err != nil && d.sent():
		s.unrecorded.keep(d)
		return unsettled(err, d.visits)
	case err != nil:
		return &store.Return{Why: store.Failed, Detail: err.Error(), After: store.Again}
	case !d.used() || !d.sent():
		unfreed = s.slots.giveBack(ctx, d, d.used() || !first && s.endedTaken(ctx, d))
	}
	if first {
		s.events.ended(ctx, d, &c)
	}
	if c.state.Dead() {
		s.repeats.Tell(ctx, s.Log, slog.LevelWarn, "notification "+string(c.state), []slog.Attr{slog.String("reason", c.reason)},
			slog.String("id", d.ID), slog.String("app", d.App), slog.Int("attempts", d.attempts), slog.String("error", c.problem))
	}
	return s.freeLater(d, unfreed)
}

// freeLater has the job of what has ended come back when its slot could not be given back:
// the visit that finds it ended tries again. After as many visits as there are attempts the
// slot stays, until the timeline forgets it.
func (s *settling) freeLater(d *delivery, err error) error {
	if err == nil || d.visits >= s.Attempts {
		return nil
	}
	back := later(err).back
	back.After, back.Failed = max(store.Again, backoffAfter(d.visits, rand.Float64())), true
	return &back
}

// setAside keeps a job that is no notification as a dead letter.
func (s *settling) setAside(ctx context.Context, job *queue.Job, cause error) error {
	reason := string(store.MalformedNotification)
	var malformed *store.MalformedError
	if errors.As(cause, &malformed) {
		reason = string(malformed.Reason)
	}
	letter := &store.Letter{
		ID: job.ID, State: store.Malformed, Reason: reason, Attempts: job.Failures, Error: cause.Error(),
		At: time.Now().UTC(), Queue: job.Queue, Job: job.Payload,
	}
	if err := job.At.Records.SetAside(ctx, letter); err != nil {
		return &store.Return{Why: store.Failed, Detail: err.Error(), After: store.Again}
	}
	s.repeats.Tell(ctx, s.Log, slog.LevelWarn, "job set aside", []slog.Attr{slog.String("reason", reason)}, slog.String("task", job.ID), slog.String("queue", job.Queue))
	s.Observer.Ended(letter.State)
	traceEnd(ctx, letter.State)
	return nil
}

// unsettled is a new visit, after that many others, because what was sent is not
// recorded. It counts as a failure: the next visit looks at the record before
// anything is sent.
func unsettled(cause error, visits int) error {
	return &store.Return{Why: store.Unrecorded, Detail: cause.Error(), After: max(store.Again, backoffAfter(visits, rand.Float64())), Failed: true}
}
