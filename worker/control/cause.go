package control

import (
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/route"
)

// A Cause is what a notification waits for, from a closed set.
type Cause string

// The causes.
const (
	ForWorker   Cause = "worker"   // it is due: a worker takes it next, where one runs
	InHand      Cause = "in_hand"  // a worker has it in its hands, and may wait there for a near instant
	ForSchedule Cause = "schedule" // its producer has said when
	ForLimit    Cause = "limit"    // one of its user's limits
	ForQuota    Cause = "quota"    // what all workers together may send, or one device gets
	ForAttempt  Cause = "attempt"  // another attempt, after one that failed
	ForPause    Cause = "pause"    // an operator's pause
	ForProvider Cause = "provider" // a provider that is in trouble, paused or busy
	ForLimiter  Cause = "limiter"  // the limits' Redis, which does not answer
	ForTimeline Cause = "timeline" // its user's timeline, which cannot be read or written
	ForRedis    Cause = "redis"    // the queue's Redis, which refuses to write
	ForMachine  Cause = "machine"  // its worker's machine, which is too busy to send on time
	ForRecovery Cause = "recovery" // a worker that crashed, or the queue's Redis that did not answer, while it was in hand
)

// Why a job returns, as asynq keeps it: Causes are read from it.
const (
	WhyDeferred  = "deferred"
	WhyAgain     = "to be sent again"
	WhyBusy      = "the provider is busy"
	WhyPaused    = "the provider is paused"
	WhyUnwritten = "Redis refuses to write"
	WhyTooLate   = "the machine is too busy to send on time"
	WhyUnchecked = "the user's limits cannot be checked"
	WhyOverQuota = "over the quota "
	WhyUnmetered = "nobody can tell what is left of the quota "
	WhyGuarded   = "over the device's limit "
)

// Causes are all of them, in the order in which they are told.
var Causes = []Cause{ForWorker, InHand, ForSchedule, ForLimit, ForQuota, ForAttempt, ForPause, ForProvider, ForLimiter, ForTimeline, ForRedis, ForMachine, ForRecovery}

// surroundings are what jobs wait for that say so themselves in part alone: what the
// workers tell, and the pauses in force, PausesSeen's.
type surroundings struct {
	workers []Snapshot
	pauses  []pause.Pause
}

// causeOf returns what a job waits for: where it is on the queue, why it has returned to
// it last, what it holds, and what is recorded of its targets. n is nil when the job
// cannot be read.
func (in *surroundings) causeOf(now time.Time, state queue.JobState, why string, n *push.Notification, outcomes []push.TargetOutcome) Cause {
	c := ForWorker
	switch state {
	case queue.JobActive:
		return InHand
	case queue.JobScheduled:
		return ForSchedule
	case queue.JobPutOff:
		if c = returnedFor(why); n == nil {
			return c
		}
		switch {
		case c == ForLimit && n.NotBefore.After(now):
			return ForSchedule
		case c == ForLimit:
			return c
		case why == "" && overQuota(n, in.workers) != "":
			c = ForQuota
		}
	}
	if kept := in.keeps(n, outcomes); kept != nil {
		return causeOfPause(kept)
	}
	if c == ForProvider { // as a part of its targets does
		if slices.ContainsFunc(in.pauses, func(p pause.Pause) bool { return p.Kind == pause.Operator && p.Keeps(n, outcomes) }) {
			return ForPause
		}
	}
	return c
}

// only returns what every job waits for that is there on the queue; "" where that differs.
func (in *surroundings) only(state queue.JobState) Cause {
	if state == queue.JobPutOff || state == queue.JobPending && len(in.pauses) > 0 {
		return ""
	}
	return in.causeOf(time.Time{}, state, "", nil, nil)
}

func causeOfPause(p *pause.Pause) Cause {
	if p.Kind == pause.Operator {
		return ForPause
	}
	return ForProvider
}

// keeps returns, of the pauses that keep every target that is left, the one that is over
// first; nil where a target may be sent to. A platform is kept by the operator's pause of
// it that ends last, else by its provider's.
func (in *surroundings) keeps(n *push.Notification, outcomes []push.TargetOutcome) *pause.Pause {
	var first *pause.Pause
	for _, platform := range platformsLeft(n, outcomes) {
		p := in.keepsPlatform(n, platform)
		if p == nil {
			return nil
		}
		if first == nil || first.Until.IsZero() || !p.Until.IsZero() && p.Until.Before(first.Until) {
			first = p
		}
	}
	return first
}

func (in *surroundings) keepsPlatform(n *push.Notification, platform push.Platform) (by *pause.Pause) {
	for i := range in.pauses {
		p := &in.pauses[i]
		operator := p.Kind == pause.Operator
		switch {
		case p.App != "" && p.App != n.App, p.Platform != "" && p.Platform != platform, p.Category != "" && p.Category != n.Category:
		case by == nil, operator && by.Kind != pause.Operator:
			by = p
		case operator && (p.Until.IsZero() || !by.Until.IsZero() && p.Until.After(by.Until)):
			by = p
		}
	}
	return by
}

// keep returns which of the pauses keep a target that is left.
func (in *surroundings) keep(n *push.Notification, outcomes []push.TargetOutcome) (which []int) {
	for i := range in.pauses {
		if in.pauses[i].Keeps(n, outcomes) {
			which = append(which, i)
		}
	}
	return which
}

// platformsLeft are those of the targets that are left, each once.
func platformsLeft(n *push.Notification, outcomes []push.TargetOutcome) (left []push.Platform) {
	if n == nil {
		return nil
	}
	for i, t := range n.Targets {
		if (i >= len(outcomes) || outcomes[i].Open()) && !slices.Contains(left, t.Platform) {
			left = append(left, t.Platform)
		}
	}
	return left
}

// ReturnedFor returns what a notification waits for that a worker has just brought back,
// as far as that worker knows: these are the operators' pauses.
func ReturnedFor(now time.Time, why string, n *push.Notification, pauses []pause.Pause) Cause {
	in := surroundings{pauses: pauses}
	return in.causeOf(now, queue.JobPutOff, why, n, nil)
}

// overQuota says which quota it is that something is parked for, which was never in a
// worker's hands; "" when its provider is busy. A quota may have a unit to spare for a
// moment: what is parked then was for it too, unless others wait for a place.
func overQuota(n *push.Notification, workers []Snapshot) string {
	if n == nil {
		return ""
	}
	for _, w := range workers {
		for _, r := range w.Routes {
			if r.App == n.App && r.Platform == n.Targets[0].Platform && (r.Quota.Binds() || r.Quota.Key != "" && r.Queued == 0) {
				return WhyOver(r.Quota)
			}
		}
	}
	return ""
}

// WhyOver says which quota has nothing left, or that nobody knows.
func WhyOver(q route.QuotaStatus) string {
	if q.Error != "" {
		return WhyUnmetered + q.Key + ": " + q.Error
	}
	return WhyOverQuota + q.Key + ": " + q.Rate
}

// returnedFor reads why a job has returned.
func returnedFor(why string) Cause {
	switch why {
	case WhyDeferred:
		return ForLimit
	case WhyAgain:
		return ForAttempt
	case WhyBusy, WhyPaused, "": // what is parked was never in a worker's hands
		return ForProvider
	case WhyUnwritten:
		return ForRedis
	case WhyTooLate:
		return ForMachine
	}
	switch {
	case strings.HasPrefix(why, WhyUnchecked):
		return ForTimeline
	case strings.HasPrefix(why, WhyOverQuota), strings.HasPrefix(why, WhyUnmetered), strings.HasPrefix(why, WhyGuarded):
		return ForQuota
	}
	if strings.Contains(why, throttle.ErrUnavailable.Error()) {
		return ForLimiter
	}
	return ForRecovery
}
