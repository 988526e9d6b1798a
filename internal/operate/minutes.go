package operate

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/route"
)

// sumMinutes sums the work of all workers by minute, oldest first, from Redis and from the live
// workers' snapshots. A minute that a worker has just added to Redis may count twice until the
// worker's next snapshot, a moment later.
func sumMinutes(added []control.Minute, workers []control.Snapshot) []control.Minute {
	all := map[time.Time]*control.Minute{}
	sum := func(minutes []control.Minute) {
		for i := range minutes {
			at := minutes[i].At.UTC()
			if all[at] == nil {
				all[at] = &control.Minute{At: at, Ended: map[push.State]int64{}}
			}
			all[at].Add(&minutes[i])
		}
	}
	sum(added)
	for i := range workers {
		sum(workers[i].Minutes)
	}
	list := make([]control.Minute, 0, len(all))
	for _, at := range slices.SortedFunc(maps.Keys(all), time.Time.Compare) {
		if m := all[at]; m.Done() || m.Waiting != nil {
			list = append(list, *m)
		}
	}
	return list
}

// readMinutes returns the workers' sums in Redis for the given number of minutes until now; the
// last is the present minute.
func (s *Service) readMinutes(ctx context.Context, now time.Time, minutes int) ([]control.Minute, error) {
	return control.ReadMinutes(ctx, s.with.Queue, s.with.Records.Prefix(), now.Add(-time.Duration(minutes-1)*time.Minute), now)
}

// maxLateness returns the largest lateness of a worker.
func maxLateness(workers []control.Snapshot) (late time.Duration) {
	for _, w := range workers {
		late = max(late, w.LateP99)
	}
	return late
}

// sumQuotas sums the workers' states of each quota, sorted by key: units used, jobs waiting, and
// the latest time until which no units are left.
func sumQuotas(workers []control.Snapshot) []route.QuotaStatus {
	all := map[string]route.QuotaStatus{}
	for _, w := range workers {
		for _, q := range w.Quotas {
			sum := all[q.Key]
			sum.Key, sum.Rate = q.Key, q.Rate
			sum.Used += q.Used
			sum.Waiting += q.Waiting
			sum.Error = cmp.Or(sum.Error, q.Error)
			if q.Until.After(sum.Until) {
				sum.Until = q.Until
			}
			all[q.Key] = sum
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b route.QuotaStatus) int { return cmp.Compare(a.Key, b.Key) })
}
