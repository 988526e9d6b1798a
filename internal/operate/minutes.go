package operate

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/route"
)

// minutesOf puts together what the workers did in each minute, the oldest first.
func minutesOf(workers []control.Snapshot) []control.Minute {
	all := map[time.Time]*control.Minute{}
	for _, w := range workers {
		for _, m := range w.Minutes {
			sum := all[m.At]
			if sum == nil {
				sum = &control.Minute{At: m.At, Ended: map[push.State]int64{}}
				all[m.At] = sum
			}
			sum.Sent += m.Sent
			sum.Deferred += m.Deferred
			for state, n := range m.Ended {
				sum.Ended[state] += n
			}
		}
	}
	list := make([]control.Minute, 0, len(all))
	for _, at := range slices.SortedFunc(maps.Keys(all), time.Time.Compare) {
		list = append(list, *all[at])
	}
	return list
}

// latest is the lateness of the worker that is the latest.
func latest(workers []control.Snapshot) (late time.Duration) {
	for _, w := range workers {
		late = max(late, w.LateP99)
	}
	return late
}

// quotasOf puts together what the workers know of each quota, sorted by key: the share
// of it that all of them use, how many wait in them, and until when there is nothing.
func quotasOf(workers []control.Snapshot) []route.QuotaStatus {
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
