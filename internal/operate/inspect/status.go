package inspect

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// A Status is all known data of a notification.
type Status struct {
	ID string `json:"id"`
	*store.Record
	// Waits is the cause of the wait; nil for an ended notification.
	Waits *Waits `json:"waits,omitempty"`
	// Job is the state of its job: pending, active, scheduled or retry; empty without a job.
	Job string `json:"job,omitempty"`
	// Paused are the pauses that match at least one of its targets.
	Paused []pause.Pause `json:"paused,omitempty"`
	// Notification is the content of its job; nil if there is no readable job.
	Notification *push.Notification `json:"-"`
}

// Waits is why a notification waits.
type Waits struct {
	For Cause `json:"for"`
	// Platform is the platform of the provider it waits for.
	Platform push.Platform `json:"platform,omitempty"`
	// QuietUntil is the end of the quiet hours it waits for, by the user's clock. It may wait for
	// a limit after that.
	QuietUntil time.Time `json:"quiet_until,omitzero"`
	// Scope and Rule name the limit it waits for.
	Scope string `json:"scope,omitempty"`
	Rule  string `json:"rule,omitempty"`
	// Reason is a text with details.
	Reason string `json:"reason,omitempty"`
	// Since is when the wait for this cause began. Until is when it ends or is checked next. Zero
	// means unknown.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// Status returns the status of the notification, or push.ErrUnknownID or a *push.AmbiguousError.
// Without a reachable limiter it does not distinguish a push in flight from a claimed job that
// waits for its slot.
func (c *Inspector) Status(ctx context.Context, ref push.Ref) (*Status, error) {
	record, job, err := c.lookup(ctx, ref)
	if err != nil {
		return nil, err
	}
	s := &Status{ID: ref.ID, Record: record}
	if record.State.Ended() {
		return s, nil
	}
	at := waitInput{now: time.Now(), record: record, job: job}
	if job != nil {
		s.Job = job.State.Asynq()
		if decoded, err := push.Decode(job.Payload); err == nil { // on an error a worker will set the job aside
			at.n, s.Notification = decoded.Notification, decoded.Notification
			record.App, record.User, record.Category = at.n.App, at.n.User, at.n.Category
			if len(record.Outcomes) == 0 {
				record.Outcomes = push.Unsent(at.n.Targets)
			}
		}
	}
	if at.workers, err = control.ReadSnapshots(ctx, c.client, c.records.Prefix()); err != nil {
		return nil, err
	}
	if len(at.workers) == 0 {
		at.unseen = redisreply.Of(control.CheckSnapshotWrites(ctx, c.client, c.records.Prefix()))
	}
	if at.n != nil {
		list, err := c.PausesOf(ctx, at.workers)
		if err != nil {
			return nil, err
		}
		s.Paused = slices.DeleteFunc(list, func(p pause.Pause) bool { return !p.Keeps(at.n, record.Outcomes) })
		at.pauses = s.Paused
		at.slot = c.slotOf(ctx, at.n)
	}
	s.Waits = at.waits()
	return s, nil
}

// lookup returns a notification's record, and its job; nil without a job or after the end.
func (c *Inspector) lookup(ctx context.Context, ref push.Ref) (*store.Record, *store.Place, error) {
	record, at, err := c.records.Lookup(ctx, ref)
	if err != nil || record.State.Ended() {
		return record, nil, err
	}
	job, err := at.Find(ctx, record.Queue, ref.ID)
	if err != nil {
		return nil, nil, err
	}
	if job == nil {
		record, err = at.Lookup(ctx, ref.ID) // the notification may just have ended
	}
	return record, job, err
}

// slotOf returns the slot at which the notification waits or is about to be sent; nil if it has no
// slot or the slot is unknown.
func (c *Inspector) slotOf(ctx context.Context, n *push.Notification) *Waiter {
	if c.limiter == nil {
		return nil
	}
	scopes := c.limits.Scopes(n.App, n.User, n.Category)
	known, err := c.limiter.Timeline(ctx, throttle.Request{App: n.App, User: n.User, Category: n.Category, Scopes: scopes})
	if err != nil {
		return nil // the workers report an outage of the limits' Redis
	}
	var slot *Waiter
	for _, s := range scopes {
		for _, b := range known.Bookings {
			if b.Scope == s.Name && (b.ID == n.ID || b.ID == throttle.AdmissionID(n.ID)) && (slot == nil || slot.Rule == "") {
				slot = &Waiter{Booking: b}
			}
		}
	}
	return slot
}

// waitInput is the input for the cause of a wait.
type waitInput struct {
	now    time.Time
	record *store.Record
	job    *store.Place       // nil without a job
	n      *push.Notification // nil if the job is unreadable
	slot   *Waiter            // nil without a slot
	unseen redisreply.Trouble // why no worker's snapshot exists
	liveState
}

// overdueAfter is how overdue a job must be before a different cause is assumed: longer than a
// worker takes to find the job by polling, after a lost wake-up.
const overdueAfter = 2 * time.Second

// waits returns the cause of the wait. A future instant of a limit or the producer comes first:
// until then no other cause matters.
func (c *waitInput) waits() *Waits {
	if c.job == nil {
		return &Waits{For: ForRecovery, Reason: "it has no job", Since: c.record.Accepted}
	}
	if c.job.State == store.JobActive {
		return c.claimed()
	}
	w := c.queued()
	if (w.For.HasSlot() || w.For == ForSchedule) && w.Until.After(c.now.Add(-overdueAfter)) {
		return w
	}
	kept := c.blockingPause(c.n, c.record.Outcomes)
	if kept != nil && kept.Kind == pause.Operator {
		return &Waits{For: ForPause, Reason: kept.Reason, Since: kept.At, Until: kept.Until}
	}
	if problem := c.missingWorker(); problem != "" && !w.Until.After(c.now) {
		return &Waits{For: ForWorker, Reason: problem, Since: latest(c.due(), w.Until)}
	}
	if kept != nil {
		return &Waits{For: ForProvider, Platform: kept.Platform, Reason: cmp.Or(kept.Error, kept.Reason), Since: kept.At, Until: kept.Until}
	}
	if w.For == ForWorker && c.closedTo(c.n, c.record.Outcomes) {
		return &Waits{For: ForProvider, Reason: returnText(store.Return{Why: store.ProviderPaused})}
	}
	return w
}

// latest returns the later of two instants.
func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// due returns the earliest instant at which the notification could be sent.
func (c *waitInput) due() time.Time { return latest(c.record.Accepted, c.record.NotBefore) }

// queued returns the cause of a queued job without regard to its slot.
func (c *waitInput) queued() *Waits {
	switch c.job.State {
	case store.JobPending:
		return &Waits{For: ForWorker, Since: c.due()}
	case store.JobScheduled:
		w := &Waits{For: ForSchedule, Since: c.record.Accepted, Until: c.job.Due.UTC()}
		if c.record.NotBefore.After(w.Until) { // asynq's instants are whole seconds
			w.Until = c.record.NotBefore
		}
		return w
	case store.JobPutOff:
		return c.returned()
	}
	return &Waits{For: ForRecovery, Reason: "its job is " + string(c.job.State), Since: c.job.Back.UTC()}
}

// returned returns the cause of a job that a worker has returned to its queue.
func (c *waitInput) returned() *Waits {
	w := &Waits{For: c.causeOf(c.now, store.JobPutOff, c.job.Last, c.n, c.record.Outcomes), Until: c.job.Due.UTC()}
	if !c.job.Back.IsZero() {
		w.Since = c.job.Back.UTC()
	}
	switch w.For {
	case ForLimit, ForQuiet:
		w.Since, w.Scope, w.Rule = c.due(), c.record.Scope, c.record.Rule
		if c.slot != nil {
			w.Until = c.slot.Slot.UTC()
			if c.slot.Rule != "" || w.Rule == "" {
				w.Scope, w.Rule = c.slot.Scope, c.slot.Rule
			}
		} else if c.record.Until.After(w.Until) {
			w.Until = c.record.Until
		}
		w.Reason = limitText(w.Scope, w.Rule)
		if w.For == ForQuiet {
			w.QuietUntil = c.job.Last.Quiet
		}
	case ForSchedule:
		w.Since, w.Until = c.record.Accepted, c.n.NotBefore.UTC()
	case ForAttempt:
		w.Reason = c.record.Error
	case ForQuota:
		quota, _ := overQuota(c.n, c.workers)
		if w.Reason = returnText(cmp.Or(c.job.Last, quota)); w.Until.IsZero() {
			w.Until = c.freeAgain(c.n, c.job.Last)
		}
	case ForProvider:
		w.Reason = returnText(c.job.Last)
		w.Since = time.Time{} // the beginning is unknown
		if left := servicesLeft(c.n, c.record.Outcomes); len(left) == 1 {
			w.Platform = left[0]
		}
	case ForLimiter:
		w.Reason = returnText(c.job.Last)
		for _, worker := range c.workers {
			if away := worker.Limits; !away.Since.IsZero() && (w.Since.IsZero() || away.Since.Before(w.Since)) {
				w.Since, w.Reason = away.Since, away.Cause
			}
		}
	case ForTimeline, ForRedis, ForMachine, ForRecovery:
		w.Reason = returnText(c.job.Last)
	}
	return w
}

// limitText returns the text for a limit.
func limitText(scope, rule string) string {
	switch {
	case scope == "":
		return ""
	case rule == "":
		rule = "those ahead"
	case rule == throttle.QuietRule:
		rule = "quiet hours"
	}
	if scope == throttle.General {
		return rule + " of the general limits"
	}
	return rule + " of category " + scope
}

// claimed returns the cause of a claimed job.
func (c *waitInput) claimed() *Waits {
	began := c.due()
	switch {
	case c.job.Orphaned || len(c.workers) == 0:
		return &Waits{For: ForRecovery, Reason: "its worker is gone; another worker takes it over within seconds", Since: began}
	case c.slot != nil && c.slot.Slot.After(c.now):
		return &Waits{For: ForLimit, Scope: c.slot.Scope, Rule: c.slot.Rule, Reason: limitText(c.slot.Scope, c.slot.Rule), Since: began, Until: c.slot.Slot.UTC()}
	case c.record.NotBefore.After(c.now):
		return &Waits{For: ForSchedule, Since: c.record.Accepted, Until: c.record.NotBefore}
	}
	return &Waits{For: InHand, Since: began}
}

// missingWorker returns why no worker claims the job; "" if a worker does.
func (c *waitInput) missingWorker() string {
	problem := "no worker runs"
	if c.unseen != redisreply.None {
		problem = "Redis " + c.unseen.Text() + ": workers cannot report that they run"
	}
	for _, w := range c.workers {
		switch {
		case w.Draining:
		case w.Pulls:
			return ""
		default:
			problem = "the workers' pulls fail"
		}
	}
	return problem
}
