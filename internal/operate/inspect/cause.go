package inspect

import (
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

// A Cause is what a notification waits for, from a closed set.
type Cause string

// The causes.
const (
	ForWorker   Cause = "worker"      // it is due: a worker takes it next, where one runs
	InHand      Cause = "in_hand"     // a worker has it in its hands, and may wait there for a near instant
	ForSchedule Cause = "schedule"    // its producer has said when
	ForLimit    Cause = "limit"       // one of its user's limits
	ForQuiet    Cause = "quiet_hours" // its user's quiet hours, until they end
	ForQuota    Cause = "quota"       // what all workers together may send, or one device gets
	ForAttempt  Cause = "attempt"     // another attempt, after one that failed
	ForPause    Cause = "pause"       // an operator's pause
	ForProvider Cause = "provider"    // a provider that is in trouble, paused or busy
	ForLimiter  Cause = "limiter"     // the limits' Redis, which does not answer
	ForTimeline Cause = "timeline"    // its user's timeline, which cannot be read or written
	ForRedis    Cause = "redis"       // the queue's Redis, which refuses to write
	ForMachine  Cause = "machine"     // its worker's machine, which is too busy to send on time
	ForRecovery Cause = "recovery"    // a worker that crashed, or the queue's Redis that did not answer, while it was in hand
)

// Causes are all of them, in the order in which they are told.
var Causes = []Cause{ForWorker, InHand, ForSchedule, ForLimit, ForQuiet, ForQuota, ForAttempt, ForPause, ForProvider, ForLimiter, ForTimeline, ForRedis, ForMachine, ForRecovery}

// HasSlot reports whether what waits for it has its instant among those of its user's limits.
func (c Cause) HasSlot() bool { return c == ForLimit || c == ForQuiet }

// CauseNames are the causes as texts.
func CauseNames() []string {
	names := make([]string, len(Causes))
	for i, c := range Causes {
		names[i] = string(c)
	}
	return names
}

// surroundings are what jobs wait for that say so themselves in part alone: what the
// workers tell, and the pauses in force, PausesSeen's.
type surroundings struct {
	workers []control.Snapshot
	pauses  []pause.Pause
}

// causeOf returns what a job waits for: where it is on the queue, why it has returned to
// it last, what it holds, and what is recorded of its targets. n is nil when the job
// cannot be read.
func (in *surroundings) causeOf(now time.Time, state store.JobState, last store.Return, n *push.Notification, outcomes []store.TargetOutcome) Cause {
	c := ForWorker
	switch state {
	case store.JobActive:
		return InHand
	case store.JobScheduled:
		return ForSchedule
	case store.JobPutOff:
		if c = causeOfReturn(last, now); n == nil {
			return c
		}
		switch {
		case c.HasSlot() && n.NotBefore.After(now):
			return ForSchedule
		case c.HasSlot():
			return c
		case last.Why == "":
			if quota, _ := overQuota(n, in.workers); quota.Why != "" {
				c = ForQuota
			}
		}
	}
	if kept := in.keeps(n, outcomes); kept != nil {
		return causeOfPause(kept)
	}
	if in.closedTo(n, outcomes) {
		return ForProvider
	}
	if c == ForProvider { // as a part of its targets does
		if slices.ContainsFunc(in.pauses, func(p pause.Pause) bool { return p.Kind == pause.Operator && p.Keeps(n, outcomes) }) {
			return ForPause
		}
	}
	return c
}

// causeOfReturn returns what a job waits for that has returned so. What quiet hours have held
// waits for a limit once they are over.
func causeOfReturn(last store.Return, now time.Time) Cause {
	if c := returns[last.Why].cause; c != ForLimit || !last.Quiet.After(now) {
		return c
	}
	return ForQuiet
}

// only returns what every job waits for that is there on the queue; "" where that differs.
func (in *surroundings) only(state store.JobState) Cause {
	if state == store.JobPutOff || state == store.JobPending && (len(in.pauses) > 0 || in.openFor(nil)) {
		return ""
	}
	return in.causeOf(time.Time{}, state, store.Return{}, nil, nil)
}

func causeOfPause(p *pause.Pause) Cause {
	if p.Kind == pause.Operator {
		return ForPause
	}
	return ForProvider
}

// keeps returns, of the pauses that keep every target that is left, the one that is over
// first; nil where a target may be sent to. A push service is kept by the operator's pause of
// it that ends last, else by its own.
func (in *surroundings) keeps(n *push.Notification, outcomes []store.TargetOutcome) *pause.Pause {
	var first *pause.Pause
	for _, service := range servicesLeft(n, outcomes) {
		p := in.keepsService(n, service)
		if p == nil {
			return nil
		}
		if first == nil || first.Until.IsZero() || !p.Until.IsZero() && p.Until.Before(first.Until) {
			first = p
		}
	}
	return first
}

func (in *surroundings) keepsService(n *push.Notification, service push.Platform) (by *pause.Pause) {
	for i := range in.pauses {
		p := &in.pauses[i]
		operator := p.Kind == pause.Operator
		switch {
		case p.App != "" && p.App != n.App, !push.Covers(p.Platform, service), p.Category != "" && p.Category != n.Category:
		case by == nil, operator && by.Kind != pause.Operator:
			by = p
		case operator && (p.Until.IsZero() || !by.Until.IsZero() && p.Until.After(by.Until)):
			by = p
		}
	}
	return by
}

// closedTo reports whether each push service that is left is closed: a pause keeps it, or a
// worker's breaker of the route is open, whose trouble may not be told yet.
func (in *surroundings) closedTo(n *push.Notification, outcomes []store.TargetOutcome) bool {
	left := servicesLeft(n, outcomes)
	for _, service := range left {
		if in.keepsService(n, service) == nil && !in.open(n.App, service) {
			return false
		}
	}
	return len(left) > 0
}

// open reports whether a worker's breaker of that route is open.
func (in *surroundings) open(app string, service push.Platform) bool {
	return in.anyRoute(func(r *route.Status) bool {
		return r.Breaker == route.BreakerOpen && r.App == app && r.Platform == service
	})
}

// openFor reports whether a breaker is open of any route of the notification; nil for any
// at all.
func (in *surroundings) openFor(n *push.Notification) bool {
	return in.anyRoute(func(r *route.Status) bool {
		return r.Breaker == route.BreakerOpen && (n == nil || r.App == n.App && slices.ContainsFunc(n.Targets, func(t push.Target) bool { return t.Service() == r.Platform }))
	})
}

func (in *surroundings) anyRoute(is func(*route.Status) bool) bool {
	for i := range in.workers {
		for j := range in.workers[i].Routes {
			if is(&in.workers[i].Routes[j]) {
				return true
			}
		}
	}
	return false
}

// keep returns which of the pauses keep a target that is left.
func (in *surroundings) keep(n *push.Notification, outcomes []store.TargetOutcome) (which []int) {
	for i := range in.pauses {
		if in.pauses[i].Keeps(n, outcomes) {
			which = append(which, i)
		}
	}
	return which
}

// servicesLeft are those of the targets that are left, each once.
func servicesLeft(n *push.Notification, outcomes []store.TargetOutcome) (left []push.Platform) {
	if n == nil {
		return nil
	}
	for i, t := range n.Targets {
		if service := t.Service(); (i >= len(outcomes) || outcomes[i].Open()) && !slices.Contains(left, service) {
			left = append(left, service)
		}
	}
	return left
}

// overQuota returns which quota it is that something is parked for, and until when there is
// nothing left of it, where that is known; the zero value when its provider is busy. A quota may
// have a unit to spare for a moment: what is parked then was for it too, unless others wait for
// a place.
func overQuota(n *push.Notification, workers []control.Snapshot) (r store.Return, until time.Time) {
	if n == nil {
		return r, until
	}
	var quota route.QuotaStatus
	queued := 0
	for _, w := range workers {
		for _, r := range w.Routes {
			switch {
			case r.App != n.App || r.Platform != n.Targets[0].Service() || r.Quota.Key == "":
			case r.Quota.Binds():
				return route.OverQuota(r.Quota), r.Quota.Until
			default:
				quota, queued = r.Quota, queued+r.Queued
			}
		}
	}
	if quota.Key == "" || queued > 0 {
		return r, until
	}
	return route.OverQuota(quota), until
}

// freeAgain returns when the quota of a parked job has units again; zero if nobody knows.
func (in *surroundings) freeAgain(n *push.Notification, last store.Return) (at time.Time) {
	if last.Why == "" {
		_, at = overQuota(n, in.workers)
		return at
	}
	for _, w := range in.workers {
		for _, q := range w.Quotas {
			if q.Key == last.Key && q.Until.After(at) {
				at = q.Until
			}
		}
	}
	return at
}

// returns says of each Why what a job waits for that has returned for it, and the same
// for a person: KEY and DETAIL are the Return's.
var returns = map[store.Why]struct {
	cause Cause
	words string
}{
	"":                    {ForProvider, "the provider is busy"}, // what is parked was never in a worker's hands
	store.Deferred:        {ForLimit, "deferred"},
	store.Retried:         {ForAttempt, "to be sent again"},
	store.ProviderBusy:    {ForProvider, "the provider is busy"},
	store.ProviderPaused:  {ForProvider, "the provider is paused"},
	store.OverQuota:       {ForQuota, "over the quota KEY: DETAIL"},
	store.Unmetered:       {ForQuota, "nobody can tell what is left of the quota KEY: DETAIL"},
	store.OverDevice:      {ForQuota, "over the device's limit KEY"},
	store.DeviceUnmetered: {ForQuota, "nobody can tell what is left of the quota of the device: DETAIL"},
	store.LeftAlone:       {ForProvider, "DETAIL"},
	store.LimiterAway:     {ForLimiter, "DETAIL"},
	store.Unchecked:       {ForTimeline, "the user's limits cannot be checked: DETAIL"},
	store.RedisRefuses:    {ForRedis, "Redis refuses to write"},
	store.TooLate:         {ForMachine, "the machine is too busy to send on time"},
	store.Unrecorded:      {ForRecovery, "not recorded: DETAIL"},
	store.Failed:          {ForRecovery, "DETAIL"},
	store.Panicked:        {ForRecovery, "DETAIL"},
	store.Crashed:         {ForRecovery, "its worker was dead"},
	store.Crowded:         {ForWorker, "others of its user are ahead, of whom more wait than may"},
	store.Unreadable:      {ForRecovery, "put off by another version"},
}

// sentence says for a person why a job has returned.
func sentence(r store.Return) string {
	return strings.NewReplacer("KEY", r.Key, "DETAIL", r.Detail).Replace(returns[r.Why].words)
}
