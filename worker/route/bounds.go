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

// A PullRoom is the capacity reserved for one pull.
type PullRoom struct {
	// Bounds limit the routes with capacity for fewer jobs than the pull takes, and the parked
	// names.
	Bounds []store.Bound
	rank   int
	routes []*Route // routes with capacity reserved for the pull
	kept   []int    // reserved capacity by route
}

// Reserve reserves capacity for a pull of up to limit jobs from that queue, where jobs are parked
// under the given names. paused reports whether the operator's pause with that selector is in
// force. Other pulls cannot use the capacity until Taken.
func (rs *Routes) Reserve(queue string, limit int, parked []string, paused func(selector string) bool, now time.Time) *PullRoom {
	room := &PullRoom{rank: rankOfQueue(queue)}
	for r := range rs.All() {
		n, bounded := r.Bulkhead.reserve(room.rank, limit, now)
		if bounded {
			room.routes, room.kept = append(room.routes, r), append(room.kept, n)
		}
		if open := r.open(room.rank, now); open < limit && (!bounded || open < n) {
			n, bounded = open, true
		}
		if bounded {
			room.Bounds = append(room.Bounds, store.Bound{Name: r.parkName, Room: n})
		}
	}
	for _, name := range partsOf(parked) {
		if rs.byName[name] == nil {
			room.Bounds = append(room.Bounds, store.Bound{Name: name, Room: rs.other(name, room.rank, paused)})
		}
	}
	return room
}

// Taken ends a pull's reservation. names has the park name of each job that the pull took. For
// each job Taken returns a function to call when the job reaches its route. Further calls do
// nothing.
func (rs *Routes) Taken(room *PullRoom, names []string) (arrived []func()) {
	arrived = make([]func(), len(names))
	for i, name := range names {
		arrived[i] = func() {}
		if r := rs.byName[name]; r != nil {
			r.Bulkhead.expect(room.rank, 1)
			arrived[i] = sync.OnceFunc(func() { r.Bulkhead.expect(room.rank, -1) })
		}
	}
	for i, r := range room.routes {
		r.Bulkhead.unreserve(room.rank, room.kept[i])
	}
	return arrived
}

// CanUnpark reports whether any of the parked names has capacity.
func (rs *Routes) CanUnpark(queue string, parked []string, paused func(selector string) bool, now time.Time) bool {
	rank := rankOfQueue(queue)
	return slices.ContainsFunc(partsOf(parked), func(name string) bool {
		if r := rs.byName[name]; r != nil {
			return min(r.Bulkhead.capacity(rank, now), r.open(rank, now)) > 0
		}
		return rs.other(name, rank, paused) > 0
	})
}

// open returns how many jobs of the rank the route allows now, apart from its bulkhead: negative while
// closed, one while trying. With a quota it is the number of jobs that get a unit in time; critical jobs
// may use the quota's reserve. Without a bound it exceeds any pull.
func (r *Route) open(rank int, now time.Time) int {
	n := math.MaxInt
	if r.Quota != nil {
		n = r.Quota.Room(unitRank(rank), MaxWait)
	}
	if r.state.restricted.Load() {
		switch {
		case r.Left(now) > 0:
			return -1
		case r.Trying(now):
			return min(n, 1)
		}
	}
	return n
}

// other returns the capacity of a parked name that is not a route's. Each parked name gets a bound,
// because a pull skips jobs parked for a pause or quota without a bound.
func (rs *Routes) other(name string, rank int, paused func(selector string) bool) int {
	if selector, is := store.PauseOf(name); is && paused(selector) {
		return -1
	}
	if key, is := store.QuotaOf(name); is && rs.pools[key] != nil {
		return rs.pools[key].Room(unitRank(rank), MaxWait)
	}
	return math.MaxInt
}

// unitRank returns the rank for taking quota units.
func unitRank(rank int) meter.Rank {
	if rank == 0 {
		return meter.Urgent
	}
	return meter.Ordinary
}

// partsOf returns the distinct parts of the names.
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

// ParkName returns the name under which jobs of the route are parked.
func (r *Route) ParkName() string { return r.parkName }
