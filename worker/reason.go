package worker

import (
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

// A reason is why this visit does not send to a target.
type reason int

const (
	sendable         reason = iota // none: the visit may send
	pausedByOperator               // an operator has paused its app, platform or category
	routeClosed                    // its route is in trouble, or its provider has asked for a delay
	routeFull                      // its route's bulkhead has no permit
	suspect                        // its route sends test pushes, and its own failure helped to close the route
	noUnits                        // a quota or a throughput has no units
	overDevice                     // its device has reached its limit
	deviceUnmetered                // its device's limit cannot be checked
	notConnected                   // there was no connection to its provider in time
	originBackoff                  // its sender backs off from a failing server
)

// A skip is a reason and its details. The zero value means that the visit may send.
type skip struct {
	reason reason
	pause  *pause.Pause  // of pausedByOperator
	pool   *meter.Pool   // of noUnits: the exhausted pool
	rule   string        // of overDevice: the device's limit
	left   time.Duration // of suspect, overDevice, deviceUnmetered and originBackoff: until the next try
	cause  string        // of deviceUnmetered and originBackoff
}

// isSet reports whether there is a reason.
func (s skip) isSet() bool { return s.reason != sendable }

// parkName returns the park name of the route, pause or quota that the target waits for; "" for a target
// that waits for a time.
func (s skip) parkName(r *route.Route) string {
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

// storeReturn returns the job's return to the queue, without its delay.
func (s skip) storeReturn() store.Return {
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
	case originBackoff:
		return store.Return{Why: store.LeftAlone, Detail: s.cause}
	}
	return store.Return{Why: store.ProviderPaused}
}

// decidingSkip returns the skip that decides when the job is retried; the zero skip if no target was
// skipped.
func decidingSkip(outcomes []outcome) (deciding skip) {
	for i := range outcomes {
		s := outcomes[i].skip
		if s.isSet() && (!deciding.isSet() || s.rank() < deciding.rank() || s.rank() == deciding.rank() && s.left < deciding.left) {
			deciding = s
		}
	}
	return deciding
}

// rank orders reasons: units first, then waits for a time, then the rest.
func (s skip) rank() int {
	switch s.reason {
	case noUnits:
		return 1
	case suspect, overDevice, deviceUnmetered, originBackoff:
		return 2
	default:
		return 3
	}
}
