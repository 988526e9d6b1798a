package route

import (
	"slices"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/queue"
)

const (
	// A bulkhead is stalled when it is full, nothing has changed for several times as
	// long as a place is held on average, within these bounds, and half as many wait
	// for a place as there are.
	leastIdle  = 100 * time.Millisecond
	idleFactor = 3
	// lineTime is for how long one waits for a place on average, behind as many as are to.
	lineTime = time.Second
	// leastLine is how many may wait however slow the provider is.
	leastLine = 16
)

// more is how many more of the rank are to be pulled, and whether it is to be told: there are
// so few that the pulls must share them. Once there is none, there is none until half of
// those that may wait have gone, so that they are pulled together.
func (b *Bulkhead) more(rank int, now time.Time) (room int, told bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	group := min(rank, 1) // critical ones, or others
	most, ahead := b.line(), b.coming[group]
	slow := most < pulledLine
	if rank == 0 {
		most, slow = maxCritical, false
	}
	for r, of := range b.waiting {
		if min(r, 1) == group {
			ahead += len(of)
		}
	}
	idle, many := b.stalledFor(rank, now, leastIdle), 2*b.queued() >= b.places
	full := &b.full[group]
	room = max(0, most-ahead)
	switch stalled := idle >= maxIdle || many && idle >= max(leastIdle, idleFactor*time.Duration(b.meanHold)); {
	case room == 0, stalled:
		*full = true
	case room >= most/2:
		*full = false
	}
	if *full {
		return 0, true
	}
	return room, slow || room < most/2
}

// line is how many but critical ones are to wait for a place.
func (b *Bulkhead) line() int {
	if b.meanHold <= 0 {
		return pulledLine
	}
	return min(pulledLine, max(leastLine, b.places*int(lineTime/time.Duration(b.meanHold))))
}

// Bounds returns for which routes how many more may be pulled from that queue: see
// queue.Config. Critical ones find what a quota and a bulkhead keep for them.
func (rs *Routes) Bounds(name string, now time.Time) (all []queue.Bound) {
	rank := rankOf(push.Default)
	if name == push.Critical.Queue() {
		rank = rankOf(push.Critical)
	}
	for r := range rs.All() {
		room, told := r.Bulkhead.more(rank, now)
		taken, waiting := r.Bulkhead.load()
		if r.Quota != nil && rank > 0 {
			if units := r.Quota.Room(QuotaWait); units < min(room, pulledLine/2) {
				room, told, waiting = units, true, max(waiting, r.Quota.Stats().Waiting)
			}
		}
		if told {
			all = append(all, queue.Bound{Route: r.only, Room: room, InHand: taken + waiting})
		}
	}
	return all
}

// Parked notes that jobs of these routes are parked.
func (rs *Routes) Parked(routes []string) {
	now := time.Now().UnixNano()
	for r := range rs.All() {
		if slices.Contains(routes, r.only) {
			r.parked.Store(now)
		}
	}
}

// ParkedSince reports whether this process has seen since that jobs of the route are parked.
func (r *Route) ParkedSince(t time.Time) bool { return r.parked.Load() >= t.UnixNano() }
