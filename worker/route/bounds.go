package route

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/meter"
)

// A PullRoom is what one pull may take.
type PullRoom struct {
	// Bounds are of the routes that have room for fewer than a pull takes, and of the names by
	// which jobs are parked.
	Bounds []store.Bound
	rank   int
	routes []*Route // of which some of their room is kept for the pull
	kept   []int    // how many
}

// Reserve returns what a pull of so many jobs at most may take of that queue, of which jobs are parked
// by these names. paused reports whether the operator's pause with that selector is in force. What
// the pull has, no other one gets until Taken.
func (rs *Routes) Reserve(queue string, most int, parked []string, paused func(selector string) bool, now time.Time) *PullRoom {
	room := &PullRoom{rank: rankOfQueue(queue)}
	for r := range rs.All() {
		n, bounded := r.Bulkhead.reserve(room.rank, most, now)
		if bounded {
			room.routes, room.kept = append(room.routes, r), append(room.kept, n)
		}
		if open := r.open(room.rank, now); open < most && (!bounded || open < n) {
			n, bounded = open, true
		}
		if bounded {
			room.Bounds = append(room.Bounds, store.Bound{Name: r.only, Room: n})
		}
	}
	for _, name := range partsOf(parked) {
		if rs.byName[name] == nil {
			room.Bounds = append(room.Bounds, store.Bound{Name: name, Room: rs.other(name, room.rank, paused)})
		}
	}
	return room
}

// Taken gives back the room that a pull has had, less what it has taken: one job for each of these
// names. It returns a function for each job, to be called when the job has arrived at its route. Later
// calls of it do nothing.
func (rs *Routes) Taken(room *PullRoom, names []string) (arrived []func()) {
	arrived = make([]func(), len(names))
	for i, name := range names {
		arrived[i] = func() {}
		if r := rs.byName[name]; r != nil {
			r.Bulkhead.come(room.rank, 1)
			arrived[i] = sync.OnceFunc(func() { r.Bulkhead.come(room.rank, -1) })
		}
	}
	for i, r := range room.routes {
		r.Bulkhead.pulled(room.rank, room.kept[i])
	}
	return arrived
}

// CanUnpark reports whether there is room for any of what is parked by these names.
func (rs *Routes) CanUnpark(queue string, parked []string, paused func(selector string) bool, now time.Time) bool {
	rank := rankOfQueue(queue)
	return slices.ContainsFunc(partsOf(parked), func(name string) bool {
		if r := rs.byName[name]; r != nil {
			return min(r.Bulkhead.more(rank, now), r.open(rank, now)) > 0
		}
		return rs.other(name, rank, paused) > 0
	})
}

// open is how many of the rank the route lets go now, whatever its bulkhead says: negative while it
// is closed, one while it is tried, and of a quota as many as get a unit in time. Critical ones find
// what a quota keeps for them. Without a bound it is more than any pull takes.
func (r *Route) open(rank int, now time.Time) int {
	n := math.MaxInt
	if r.Quota != nil {
		n = r.Quota.Room(unitRank(rank), MaxWait)
	}
	if r.state.apart.Load() {
		switch {
		case r.Left(now) > 0:
			return -1
		case r.Trying(now):
			return min(n, 1)
		}
	}
	return n
}

// other is the room of a name that is no route's. Each name by which jobs are parked has a bound: a
// pull takes nothing of a pause or a quota that it has not been told of.
func (rs *Routes) other(name string, rank int, paused func(selector string) bool) int {
	if selector, is := store.PauseOf(name); is && paused(selector) {
		return -1
	}
	if key, is := store.QuotaOf(name); is && rs.pools[key] != nil {
		return rs.pools[key].Room(unitRank(rank), MaxWait)
	}
	return math.MaxInt
}

// unitRank is the rank by which units are taken.
func unitRank(rank int) meter.Rank {
	if rank == 0 {
		return meter.Urgent
	}
	return meter.Ordinary
}

// partsOf are the parts of the names, each once.
func partsOf(names []string) (parts []string) {
	for _, name := range names {
		for _, part := range store.ParkNames(name) {
			if !slices.Contains(parts, part) {
				parts = append(parts, part)
			}
		}
	}
	return parts
}

func rankOfQueue(queue string) int {
	return max(0, slices.IndexFunc(ranked[:], func(p push.Priority) bool { return p.Queue() == queue }))
}

// ParkName is the name by which what waits for the route is parked.
func (r *Route) ParkName() string { return r.only }
