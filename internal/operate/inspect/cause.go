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

// A Cause is the reason of a wait, from a closed set.
type Cause string

// The causes.
const (
	ForWorker   Cause = "worker"      // a worker: it is due
	InHand      Cause = "in_hand"     // a worker has claimed it, and sends it now or within seconds
	ForSchedule Cause = "schedule"    // its not_before
	ForLimit    Cause = "limit"       // one of its user's limits
	ForQuiet    Cause = "quiet_hours" // its user's quiet hours, until they end
	ForQuota    Cause = "quota"       // a shared quota or a device's limit
	ForAttempt  Cause = "attempt"     // another attempt after a failed one
	ForPause    Cause = "pause"       // an operator's pause
	ForProvider Cause = "provider"    // a provider in trouble, paused or busy
	ForLimiter  Cause = "limiter"     // the limits' Redis, while unreachable
	ForTimeline Cause = "timeline"    // its user's timeline, while Redis cannot read or write it
	ForRedis    Cause = "redis"       // the queue's Redis, while it refuses writes
	ForMachine  Cause = "machine"     // its worker's machine, too busy to send on time
	ForRecovery Cause = "recovery"    // recovery from a crashed worker, or from an error of the queue's Redis
)

// Causes are all causes in the order of display.
var Causes = []Cause{ForWorker, InHand, ForSchedule, ForLimit, ForQuiet, ForQuota, ForAttempt, ForPause, ForProvider, ForLimiter, ForTimeline, ForRedis, ForMachine, ForRecovery}

// HasSlot reports whether a job with this cause has a slot.
func (c Cause) HasSlot() bool { return c == ForLimit || c == ForQuiet }

// CauseNames returns the causes as strings.
func CauseNames() []string {
	names := make([]string, len(Causes))
	for i, c := range Causes {
		names[i] = string(c)
	}
	return names
}

// A liveState holds the workers' snapshots and the pauses in force, on which a job's cause
// depends besides the job itself.
type liveState struct {
	workers []control.Snapshot
	pauses  []pause.Pause
}

// causeOf returns the cause of a job's wait from its place, its last return, its content and the
// recorded outcomes. n is nil if the job is unreadable.
func (in *liveState) causeOf(now time.Time, state store.JobState, last store.Return, n *push.Notification, outcomes []store.TargetOutcome) Cause {
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
	if kept := in.blockingPause(n, outcomes); kept != nil {
		return causeOfPause(kept)
	}
	if in.closedTo(n, outcomes) {
		return ForProvider
	}
	if c == ForProvider { // some targets wait for the provider
		if slices.ContainsFunc(in.pauses, func(p pause.Pause) bool { return p.Kind == pause.Operator && p.Keeps(n, outcomes) }) {
			return ForPause
		}
	}
	return c
}

// causeOfReturn returns the cause of a job's last return. After quiet hours the cause is a limit.
func causeOfReturn(last store.Return, now time.Time) Cause {
	if c := returnReasons[last.Why].cause; c != ForLimit || !last.Quiet.After(now) {
		return c
	}
	return ForQuiet
}

// commonCause returns the common cause of all jobs in that state; "" if their causes may differ.
func (in *liveState) commonCause(state store.JobState) Cause {
	if state == store.JobPutOff || state == store.JobPending && (len(in.pauses) > 0 || in.closedFor(nil)) {
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

// blockingPause returns the first pause to end, if pauses block all remaining targets; nil if a target
// may be sent to. For a push service, the operator's pause that ends last counts, else its own pause.
func (in *liveState) blockingPause(n *push.Notification, outcomes []store.TargetOutcome) *pause.Pause {
	var first *pause.Pause
	for _, service := range servicesLeft(n, outcomes) {
		p := in.servicePause(n, service)
		if p == nil {
			return nil
		}
		if first == nil || first.Until.IsZero() || !p.Until.IsZero() && p.Until.Before(first.Until) {
			first = p
		}
	}
	return first
}

func (in *liveState) servicePause(n *push.Notification, service push.Platform) (by *pause.Pause) {
	for i := range in.pauses {
		p := &in.pauses[i]
		operator := p.Kind == pause.Operator
		switch {
		case p.App != "" && p.App != n.App, !p.Covers(service), p.Category != "" && p.Category != n.Category:
		case by == nil, operator && by.Kind != pause.Operator:
			by = p
		case operator && (p.Until.IsZero() || !by.Until.IsZero() && p.Until.After(by.Until)):
			by = p
		}
	}
	return by
}

// closedTo reports whether each remaining push service is closed: by a pause, or by a worker's
// closed route without a reported trouble yet.
func (in *liveState) closedTo(n *push.Notification, outcomes []store.TargetOutcome) bool {
	left := servicesLeft(n, outcomes)
	for _, service := range left {
		if in.servicePause(n, service) == nil && !in.closed(n.App, service) {
			return false
		}
	}
	return len(left) > 0
}

// closed reports whether a worker has closed that route.
func (in *liveState) closed(app string, service push.Platform) bool {
	return in.anyRoute(func(r *route.Status) bool {
		return r.State == route.Closed && r.App == app && r.Platform == service
	})
}

// closedFor reports whether any of the notification's routes is closed; nil means any route.
func (in *liveState) closedFor(n *push.Notification) bool {
	return in.anyRoute(func(r *route.Status) bool {
		return r.State == route.Closed && (n == nil || r.App == n.App && slices.ContainsFunc(n.Targets, func(t push.Target) bool { return t.Service() == r.Platform }))
	})
}

func (in *liveState) anyRoute(is func(*route.Status) bool) bool {
	for i := range in.workers {
		for j := range in.workers[i].Routes {
			if is(&in.workers[i].Routes[j]) {
				return true
			}
		}
	}
	return false
}

// matchingPauses returns the indexes of the pauses that match a remaining target.
func (in *liveState) matchingPauses(n *push.Notification, outcomes []store.TargetOutcome) (which []int) {
	for i := range in.pauses {
		if in.pauses[i].Keeps(n, outcomes) {
			which = append(which, i)
		}
	}
	return which
}

// servicesLeft returns the distinct push services of the remaining targets.
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

// overQuota returns the store.Return for the quota that a parked job waits for, and when units are
// available again, if known. It returns the zero value if the provider is busy. A free unit may
// exist for a moment: the job still waits for the quota unless other jobs wait for a permit.
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

// freeAgain returns when the quota of a parked job has units again; zero if unknown.
func (in *liveState) freeAgain(n *push.Notification, last store.Return) (at time.Time) {
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

// returnReasons has the cause and the text of each Why. KEY and DETAIL are replaced by the Return's.
var returnReasons = map[store.WaitReason]struct {
	cause Cause
	words string
}{
	"":                    {ForProvider, "the provider is busy"}, // parked jobs were never claimed
	store.Deferred:        {ForLimit, "deferred"},
	store.Retried:         {ForAttempt, "another attempt follows"},
	store.ProviderBusy:    {ForProvider, "the provider is busy"},
	store.ProviderPaused:  {ForProvider, "the provider is paused"},
	store.OverQuota:       {ForQuota, "over the quota KEY: DETAIL"},
	store.Unmetered:       {ForQuota, "the remaining units of the quota KEY are unknown: DETAIL"},
	store.OverDevice:      {ForQuota, "over the device's limit KEY"},
	store.DeviceUnmetered: {ForQuota, "the remaining units of the device are unknown: DETAIL"},
	store.LeftAlone:       {ForProvider, "DETAIL"},
	store.LimiterAway:     {ForLimiter, "DETAIL"},
	store.Unchecked:       {ForTimeline, "the user's limits cannot be checked: DETAIL"},
	store.RedisRefuses:    {ForRedis, "Redis refuses to write"},
	store.TooLate:         {ForMachine, "the machine is too busy to send on time"},
	store.Unrecorded:      {ForRecovery, "not recorded: DETAIL"},
	store.Failed:          {ForRecovery, "DETAIL"},
	store.Panicked:        {ForRecovery, "DETAIL"},
	store.Crashed:         {ForRecovery, "its worker died or stopped"},
	store.Crowded:         {ForWorker, "the user has reached max_booked: earlier notifications go first"},
	store.Unreadable:      {ForRecovery, "returned by another version"},
}

// returnText returns the text for a return.
func returnText(r store.Return) string {
	return strings.NewReplacer("KEY", r.Key, "DETAIL", r.Detail).Replace(returnReasons[r.Why].words)
}
