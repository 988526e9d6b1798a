package control

import (
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

// waitsFor returns what a job waits for: where it is on the queue, what it says
// of its last return to it, and what it holds. n is nil when the job cannot be read.
func waitsFor(now time.Time, state queue.JobState, returned string, n *push.Notification, pauses []pause.Pause) Cause {
	switch state {
	case queue.JobPending:
		return ForWorker
	case queue.JobActive:
		return InHand
	case queue.JobScheduled:
		return ForSchedule
	}
	return ReturnedFor(now, returned, n, pauses)
}

// ReturnedFor returns what a job waits for that says so of its last return. Operators'
// pauses are told from providers' trouble by matching the pauses in force.
func ReturnedFor(now time.Time, why string, n *push.Notification, pauses []pause.Pause) Cause {
	c := returnedFor(why)
	switch {
	case n == nil:
	case c == ForLimit && n.NotBefore.After(now):
		return ForSchedule
	case c == ForProvider:
		for _, p := range pauses {
			if p.Kind == pause.Operator && p.Keeps(n, nil) {
				return ForPause
			}
		}
	}
	return c
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
