package worker

import (
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

// A reason says why a target is not sent to in this visit, from a closed set.
type reason int

const (
	sendable         reason = iota // there is none: it may be sent to
	pausedByOperator               // an operator's pause is on it
	routeClosed                    // its route is in trouble, or its provider has asked for a pause
	noUnits                        // a quota or a throughput has no units for it
	overDevice                     // its device has had as many pushes as it may
	deviceUnmetered                // nobody can tell how many pushes its device has had
	notConnected                   // there was no connection to its provider in time
	leftAlone                      // its provider leaves its server alone, which is out of order
)

// A skip is a reason and the values that belong to it. The zero value is that the target
// may be sent to.
type skip struct {
	reason reason
	pause  *pause.Pause  // of pausedByOperator
	pool   *meter.Pool   // of noUnits: it has none
	rule   string        // of overDevice: the device's limit
	left   time.Duration // of a device or leftAlone: until it may get a push, or is asked about again
	cause  string        // of deviceUnmetered and leftAlone
}

// some reports whether there is a reason.
func (s skip) some() bool { return s.reason != sendable }

// woken reports whether the end of a pause, or the opening of the route, brings the job
// back.
func (s skip) woken() bool {
	return s.reason == pausedByOperator || s.reason == routeClosed || s.reason == notConnected
}

// selector is the name under which the jobs are remembered that are woken.
func (s skip) selector(r *route.Route) string {
	if s.pause != nil {
		return s.pause.Selector()
	}
	return r.Name()
}

// back is how the job returns to the queue. look is after how long one that is woken looks
// by itself, or one without units comes back; quota is what is known of the pool.
func (s skip) back(look time.Duration, quota route.QuotaStatus) (back store.Return) {
	switch s.reason {
	case noUnits:
		back = control.OverQuota(quota)
		back.After = look
	case overDevice:
		back = store.Return{Why: store.OverDevice, Key: s.rule, After: s.left}
	case deviceUnmetered:
		back = store.Return{Why: store.DeviceUnmetered, Detail: s.cause, After: s.left}
	case leftAlone:
		back = store.Return{Why: store.LeftAlone, Detail: s.cause, After: s.left}
	default:
		back = store.Return{Why: store.ProviderPaused, After: look}
	}
	return back
}

// longestLook is after how long a job looks by itself whether its route is still closed,
// while no more are kept than look one after the other in that time: a pause may last for
// days, and keep much.
const longestLook = 5 * time.Minute

// keptBy returns, of the reasons for which targets were not sent to, the one that says when
// the job comes back; the zero skip when there is none.
func keptBy(outcomes []outcome) (kept skip) {
	for i := range outcomes {
		s := outcomes[i].skip
		if s.some() && (!kept.some() || s.rank() < kept.rank() || s.rank() == kept.rank() && s.left < kept.left) {
			kept = s
		}
	}
	return kept
}

// rank has units go first, then the device or server that may get a push first.
func (s skip) rank() int {
	switch s.reason {
	case noUnits:
		return 1
	case overDevice, deviceUnmetered, leftAlone:
		return 2
	default:
		return 3
	}
}
