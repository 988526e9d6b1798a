package worker

import (
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

// A reason says why a target is not sent to in this visit, from a closed set.
type reason int

const (
	sendable         reason = iota // there is none: it may be sent to
	pausedByOperator               // an operator's pause is on it
	routeClosed                    // its route is in trouble, or its provider has asked for a pause
	routeFull                      // its route has no place for it
	suspect                        // its route is being tried, and its own answer was a reason for that
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
	left   time.Duration // of a suspect, a device or leftAlone: until it may get a push, or is asked about again
	cause  string        // of deviceUnmetered and leftAlone
}

// some reports whether there is a reason.
func (s skip) some() bool { return s.reason != sendable }

// parks returns the name of what has to have room before the target is sent to; "" for what waits
// for an instant.
func (s skip) parks(r *route.Route) string {
	switch s.reason {
	case pausedByOperator:
		if s.pause.Category != "" {
			return store.PauseName(s.pause.Selector())
		}
		return r.ParkName()
	case routeClosed, routeFull, notConnected:
		return r.ParkName()
	case noUnits:
		if s.pool == r.Quota {
			return r.ParkName()
		}
		return store.QuotaName(s.pool.Key)
	}
	return ""
}

// back is how the job returns to the queue.
func (s skip) back() store.Return {
	switch s.reason {
	case noUnits:
		return route.OverQuota(route.QuotaOf(s.pool))
	case routeFull:
		return store.Return{Why: store.ProviderBusy}
	case notConnected:
		return store.Return{Why: store.TooLate}
	case overDevice:
		return store.Return{Why: store.OverDevice, Key: s.rule}
	case deviceUnmetered:
		return store.Return{Why: store.DeviceUnmetered, Detail: s.cause}
	case leftAlone:
		return store.Return{Why: store.LeftAlone, Detail: s.cause}
	}
	return store.Return{Why: store.ProviderPaused}
}

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

// rank has units go first, then what waits for an instant, the nearest first.
func (s skip) rank() int {
	switch s.reason {
	case noUnits:
		return 1
	case suspect, overDevice, deviceUnmetered, leftAlone:
		return 2
	default:
		return 3
	}
}
