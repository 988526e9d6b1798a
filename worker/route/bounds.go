package route

import (
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

const (
	// A bulkhead is stalled when it is full, nothing has changed for several times as
	// long as a place is held on average, within these bounds, and half as many wait
	// for a place as there are.
	leastIdle  = 100 * time.Millisecond
	idleFactor = 3
	// lineTime is for how long one waits for a place at most, on average: what waits for
	// longer than maxWait goes back.
	lineTime = time.Second
)

// A bound is how many more are to be pulled for a bulkhead.
type bound struct {
	room int
	// told says that there are so few that the pulls must know.
	told bool
	// stalled says that there are none since nothing moves.
	stalled bool
}

// more is how many more of the rank are to be pulled. Once there is room for none, there is
// none until half of those that may wait have gone, so that they are pulled together.
func (b *Bulkhead) more(rank int, now time.Time) bound {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := b.line()
	slow := rank > 0 && most < pulledLine
	if rank == 0 {
		most = maxCritical
	}
	ahead := func(rank int) int { return len(b.waiting[rank]) + b.coming[rank] }
	left := most + max(0, b.places-len(b.taken)) - ahead(rank)
	if bulk := rankOf(push.Bulk); rank == bulk { // default ones go first, but for each fairShare's place
		left = max(left-ahead(bulk-1), min(most, max(1, most/fairShare))-ahead(bulk))
	}
	room := max(0, left)
	idle, many := b.stalledFor(rank, now, leastIdle), 2*b.queued() >= b.places
	stalled := idle >= maxIdle || many && idle >= max(leastIdle, idleFactor*time.Duration(b.meanHold))
	switch full := &b.full[rank]; {
	case room == 0, stalled:
		*full = true
	case room >= most/2, rank > 1 && room >= most/fairShare:
		*full = false
	}
	if b.full[rank] {
		return bound{0, true, stalled}
	}
	return bound{room, slow || room < most/2, false}
}

// line is how many but critical ones are to wait for a place.
func (b *Bulkhead) line() int {
	if b.meanHold <= 0 {
		return pulledLine
	}
	return int(min(pulledLine, int64(b.places)*int64(lineTime)/b.meanHold))
}

// Bounds returns for which routes how many more may be pulled from that queue: see
// queue.Config. Critical ones find what a quota and a bulkhead keep for them.
func (rs *Routes) Bounds(name string, now time.Time) (all []store.Bound) {
	rank := slices.IndexFunc(ranked[:], func(p push.Priority) bool { return p.Queue() == name })
	for r := range rs.All() {
		more, inHand := r.Bulkhead.more(rank, now), 0
		if taken, waiting := r.Bulkhead.load(); more.stalled {
			inHand = taken + waiting
		}
		if r.Quota != nil && rank > 0 {
			if units := r.Quota.Room(QuotaWait); units < min(more.room, pulledLine/2) {
				more.room, more.told = units, true
				inHand = max(inHand, r.Quota.Stats().Waiting)
			}
		}
		if more.told {
			all = append(all, store.Bound{Route: r.only, Room: more.room, InHand: inHand})
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
