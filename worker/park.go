package worker

import (
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/queue"
)

// While a provider is stuck, most of what is pulled may be for it. Each such job
// would go through asynq and back for nothing, at the cost of those for the
// other providers: the pull leaves it on the queue for a while.

const (
	// A gate is one to park for when it is full, nothing has moved for several
	// times as long as a place is usually taken, within these bounds, and half as
	// many stand before it as fit in.
	leastStill  = 100 * time.Millisecond
	stillFactor = 3
	leastPark   = 2 * time.Second
	// parkGap lies between the ends of two jobs' parking, on the whole, so that
	// many of them do not keep the queue busy with coming and going.
	parkGap = 100 * time.Microsecond
)

// parkUntil is until when what is for the gate stays on the queue; zero when it
// may be pulled.
func (g *gate) parkUntil(now time.Time) time.Time {
	least := min(gateStill, max(leastStill, stillFactor*time.Duration(g.usual.Load())))
	still := g.stuck(now, least)
	if still == 0 || still < gateStill && g.waiting.Load() < int64(cap(g.places)/2) {
		return time.Time{}
	}
	until := now.Add(max(leastPark, min(still, longestBusy)))
	if last := time.Unix(0, g.parked.Load()); last.After(until) {
		return last
	}
	return until
}

// parkedTo notes that so many jobs stay on the queue until then.
func (g *gate) parkedTo(until time.Time, n int64) {
	g.parked.Store(until.Add(time.Duration(n) * parkGap).UnixNano())
}

// stalled are the gates whose jobs stay on the queue.
func (r routes) stalled(now time.Time) (all []queue.Stalled) {
	for name, app := range r {
		for platform, route := range app {
			if until := route.gate.parkUntil(now); !until.IsZero() {
				all = append(all, queue.Stalled{
					Mark: push.OnlyMark(name, platform), Until: until, Skipped: func(n int64) { route.gate.parkedTo(until, n) },
				})
			}
		}
	}
	return all
}
