package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/queue"
)

// An outcome is what is known of one target.
type outcome struct {
	providers.Outcome
	// told is the outcome as the record keeps it.
	told push.TargetOutcome
	sent bool // in this visit
	// blocked says that the route is closed, in this visit, and pausedBy by which
	// operator's pause, if one does.
	blocked  bool
	pausedBy *pause.Pause
	// missed says that there was no connection for it at its instant.
	missed bool
}

// open reports whether the target is still to be sent to.
func (o *outcome) open() bool {
	return o.Kind == 0 || o.Kind == providers.Retry || o.Kind == providers.Misconfigured
}

// due reports whether the target is to be sent to in this visit.
func (o *outcome) due() bool { return o.open() && !o.blocked }

// resumed is an outcome as an earlier visit has recorded it.
func resumed(o push.TargetOutcome) outcome {
	for _, kind := range []providers.Kind{providers.Delivered, providers.DeadToken, providers.Retry, providers.Rejected, providers.Misconfigured} {
		if kind.String() == o.Kind {
			return outcome{Outcome: providers.Outcome{Kind: kind, Reason: providers.Reason(o.Reason), Ambiguous: o.Ambiguous}, told: o}
		}
	}
	return unsent(o.Ambiguous)
}

// unsent is the outcome of a target to which nothing was sent, or, when it is
// ambiguous, may have been.
func unsent(ambiguous bool) outcome {
	return outcome{Outcome: providers.Outcome{Ambiguous: ambiguous}, told: push.TargetOutcome{Ambiguous: ambiguous}}
}

func tell(o providers.Outcome) outcome {
	return outcome{Outcome: o, told: push.TargetOutcome{Kind: o.Kind.String(), Reason: string(o.Reason), Ambiguous: o.Ambiguous, ProviderID: o.ProviderID}}
}

// A conclusion is what follows from the outcomes: an end, or another attempt
// after a delay.
type conclusion struct {
	state   push.State // push.Waiting for another attempt
	delay   time.Duration
	reason  string
	problem string
	// taken says that a provider has taken the notification, or may have: its
	// slot is used.
	taken   bool
	blocked bool // some targets were not sent to, because their route is closed
	dead    int  // targets whose token is dead
}

// A budget is what a notification may spend on attempts.
type budget struct {
	attempts int
	time     time.Duration
}

// conclude decides what follows from the outcomes of all targets, after the
// given number of attempts, the first of them that long ago.
func conclude(outcomes []outcome, attempts int, since time.Duration, b budget, backoff time.Duration) conclusion {
	var c conclusion
	var delivered, retry, misconfigured, rejected bool
	for i := range outcomes {
		o := &outcomes[i]
		c.taken = c.taken || o.Ambiguous
		if o.blocked {
			c.blocked = true
			continue
		}
		switch o.Kind {
		case providers.Delivered:
			delivered, c.taken = true, true
			continue
		case providers.DeadToken:
			c.dead++
			continue
		case providers.Retry:
			retry = true
		case providers.Misconfigured:
			misconfigured = true
		case providers.Rejected:
			rejected = true
		}
		c.delay = max(c.delay, o.RetryAfter)
		c.reason = string(o.Reason)
		if o.Err != nil {
			c.problem = o.Err.Error()
		}
	}
	again := retry || misconfigured
	spent := since > b.time || retry && !c.blocked && attempts >= b.attempts
	switch {
	case (again || c.blocked) && !spent:
		c.state = push.Waiting
		if again {
			c.delay = max(c.delay, backoff)
		}
	case delivered:
		c.state = push.Delivered
	case again || c.blocked:
		c.state = push.Exhausted
	case rejected:
		c.state = push.Rejected
	default:
		c.state = push.Undeliverable
	}
	return c
}

func (h *handler) conclude(d *delivery) conclusion {
	since := time.Duration(0)
	if !d.first.IsZero() {
		since = time.Since(d.first)
	}
	return conclude(d.outcomes, d.attempts, since, budget{h.Attempts, h.RetryTime}, backoffAfter(d.attempts))
}

// cutShort is the conclusion when what is not delivered by now is not to be.
func (d *delivery) cutShort(state push.State, why string) conclusion {
	c := conclusion{state: state, problem: why, taken: d.taken()}
	for i := range d.outcomes {
		switch d.outcomes[i].Kind {
		case providers.Delivered:
			c.state = push.Delivered
		case providers.DeadToken:
			c.dead++
		}
	}
	return c
}

// lineFull is the conclusion when there is no room in the user's line.
func (d *delivery) lineFull() conclusion {
	c := d.cutShort(push.Rejected, "as many of the user's notifications wait as may")
	if c.state == push.Rejected {
		c.reason = string(providers.LineFull)
	}
	return c
}

// taken reports whether a provider has taken the notification, or may have.
func (d *delivery) taken() bool {
	for i := range d.outcomes {
		if o := &d.outcomes[i]; o.Kind == providers.Delivered || o.Ambiguous {
			return true
		}
	}
	return false
}

// backoffAfter is the jittered exponential wait before the next attempt.
func backoffAfter(attempts int) time.Duration {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = time.Second, 10*time.Minute, 2
	var d time.Duration
	for range min(attempts, 20) {
		d = b.NextBackOff()
	}
	return d
}

// unsettled is a new visit, after that many others, because what was sent is not
// recorded. It counts on asynq's side: the next visit looks at the record before
// anything is sent.
func unsettled(cause error, visits int) error {
	return queue.Retry("not recorded: "+cause.Error(), max(queue.Again, backoffAfter(visits)))
}

// standBack returns the job to the queue until a route may be open. It spends
// neither an attempt nor a slot. Those who wait behind the slot are not woken yet:
// the next one is likely to stand back too.
func (h *handler) standBack(ctx context.Context, d *delivery) error {
	h.rememberPaused(ctx, d, h.freeSlot(ctx, d, d.taken()))
	return queue.Snooze(whyPaused, h.blockedFor(d))
}

// settle ends the delivery after an attempt, or has it come back for another.
func (h *handler) settle(ctx context.Context, d *delivery) error {
	if !d.attempted() {
		return h.standBack(ctx, d)
	}
	d.attempts++
	if d.first.IsZero() {
		d.first = time.Now()
	}
	return h.record(ctx, d)
}

// record records what became of an attempt: an end, or that another is to come.
func (h *handler) record(ctx context.Context, d *delivery) error {
	c := h.conclude(d)
	if err := h.reportDead(ctx, d); err != nil && d.visits < h.Attempts {
		h.unrecorded.keep(d)
		_, notNoted := h.note(ctx, d, d.unreported(), c.problem)
		return unsettled(errors.Join(err, notNoted), d.visits)
	} else if err != nil {
		h.Log.LogAttrs(ctx, slog.LevelError, "dead tokens are not reported: the next notification to them finds them again",
			slog.String("id", d.ID), slog.String("app", d.App), slog.Any("error", err))
	}
	if c.state != push.Waiting {
		return h.finish(ctx, d, c)
	}
	alone, err := h.note(ctx, d, d.told(), c.problem)
	if err != nil {
		h.unrecorded.keep(d)
		return unsettled(err, d.visits)
	}
	if !c.taken && alone {
		h.giveBack(ctx, d, false)
	}
	if c.blocked {
		h.rememberPaused(ctx, d, nil)
		if left := h.blockedFor(d); c.delay == 0 {
			c.delay = left
		} else { // other targets are to be sent to again
			c.delay = max(c.delay, min(left, longestBlock))
		}
	}
	return queue.Retry(whyAgain, c.delay)
}

// note notes the attempt in the record. It answers false when another worker has
// the job as well, and was faster: what the notification was admitted with may be
// used.
func (h *handler) note(ctx context.Context, d *delivery, told []push.TargetOutcome, problem string) (alone bool, err error) {
	err = h.persist(ctx, func() (err error) {
		alone, err = h.Records.Attempt(ctx, d.ID, d.attempts, d.visits, told, problem)
		return err
	})
	return alone, err
}

// attempted reports whether the visit was an attempt: that it sent something, or
// had nothing to wait for.
func (d *delivery) attempted() bool {
	blocked := false
	for i := range d.outcomes {
		if d.outcomes[i].sent {
			return true
		}
		blocked = blocked || d.outcomes[i].blocked
	}
	return !blocked
}

// reportDead tells the producer of the tokens that this visit found dead. It
// comes before the end is recorded: after a crash in between they are found, and
// reported, again.
func (h *handler) reportDead(ctx context.Context, d *delivery) error {
	var dead []push.DeadToken
	for i := range d.outcomes {
		if o := &d.outcomes[i]; o.sent && o.Kind == providers.DeadToken {
			dead = append(dead, push.DeadToken{
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

// unreported is what is told of the outcomes when the dead tokens could not be
// reported. Another process, should it come to that, finds these again, and does
// not send to the others.
func (d *delivery) unreported() []push.TargetOutcome {
	told := d.told()
	for i := range d.outcomes {
		if o := &d.outcomes[i]; o.sent && o.Kind == providers.DeadToken {
			told[i].Kind, told[i].Reason, told[i].ProviderID = "", "", ""
		}
	}
	return told
}

// finish settles the notification, once.
func (h *handler) finish(ctx context.Context, d *delivery, c conclusion) error {
	h.traceEnd(ctx, c.state)
	if c.state == push.Delivered && d.plain() && h.queue.Settle(d.ID, d.told()) {
		h.ended(ctx, d, c.state)
		return nil
	}
	end := push.End{State: c.state, Outcomes: d.told(), Error: c.problem, Attempts: d.attempts, DeadTokens: c.dead}
	if d.slotted {
		end.Deferrals = 1
	}
	if c.state.Dead() {
		end.Letter = d.letter(c, d.attempts)
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
		return later(err)
	case !c.taken || !d.sent():
		h.giveBack(ctx, d, d.taken() || !first && h.endedTaken(ctx, d))
	}
	if first {
		h.ended(ctx, d, c.state)
	}
	if c.state.Dead() {
		h.Log.LogAttrs(ctx, slog.LevelWarn, "notification "+string(c.state), slog.String("id", d.ID), slog.String("app", d.App),
			slog.String("reason", c.reason), slog.Int("attempts", d.attempts), slog.String("error", c.problem))
	}
	return nil
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
	return err != nil || slices.ContainsFunc(record.Outcomes, func(o push.TargetOutcome) bool { return o.Taken() })
}

// giveBack returns the slot of a notification. What it was admitted with stays
// when that is used: a provider has taken it, or may have.
func (h *handler) giveBack(ctx context.Context, d *delivery, used bool) {
	h.wake(h.freeSlot(ctx, d, used))
}

// freeSlot is giveBack, and leaves who has come forward to the caller.
func (h *handler) freeSlot(ctx context.Context, d *delivery, used bool) []throttle.Booking {
	request := h.request(d)
	if len(request.Scopes) == 0 {
		return nil
	}
	request.Used = used
	moved, err := h.Limiter.Cancel(ctx, request)
	if err != nil {
		h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "slot not given back", slog.String("id", d.ID), slog.Any("error", err))
	}
	return moved
}

// told is the outcomes as the record keeps them.
func (d *delivery) told() []push.TargetOutcome {
	told := push.Unsent(d.Targets)
	for i := range told {
		platform, end := told[i].Platform, told[i].TokenEnd
		told[i] = d.outcomes[i].told
		told[i].Platform, told[i].TokenEnd = platform, end
	}
	return told
}

// persist repeats a write that failed for a while.
func (h *handler) persist(ctx context.Context, write func() error) error {
	return h.queue.Persist(ctx, 10*time.Second, write)
}
