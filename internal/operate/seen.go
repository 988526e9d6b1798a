package operate

import (
	"math"

	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/worker/control"
)

// overviewOf returns what of the overview it sees: all of it, or what is its apps'. What
// is counted for all apps together is estimated from what was looked at, and marked as
// sampled, or left out.
func (o *Operator) overviewOf(all *Overview) *Overview {
	if o.SeesAll() {
		return all
	}
	its := &Overview{
		At: all.At, Apps: o.who.Apps, Workers: o.workersOf(all.Workers),
		Queues: []Queue{}, Minutes: []control.Minute{}, Pauses: o.pausesOf(all.Pauses), Letters: o.lettersOf(&all.Letters), Redis: []redisconn.Node{},
	}
	its.Providers = providersOf(its.Workers)
	its.Waits, its.Sampled = control.SharesOf(all.Waits, o.Sees)
	for _, s := range its.Waits {
		its.Waiting += s.Count
	}
	return its
}

// workersOf returns what of the workers it sees.
func (o *Operator) workersOf(all []control.Snapshot) []control.Snapshot {
	if o.SeesAll() {
		return all
	}
	its := make([]control.Snapshot, len(all))
	for i := range all {
		its[i] = all[i].Of(o.Sees)
	}
	return its
}

// lettersOf estimates the letters of its apps.
func (o *Operator) lettersOf(all *Letters) Letters {
	its := Letters{Sampled: int64(all.LookedAt) < all.Count, Reasons: map[string]int{}}
	for app, reasons := range all.by {
		if !o.Sees(app) {
			continue
		}
		for reason, n := range reasons {
			its.Reasons[reason] += n
			its.LookedAt += n
		}
	}
	its.Count = int64(its.LookedAt)
	if its.Sampled && all.LookedAt > 0 { // those that were counted may be gone
		its.Count = int64(math.Round(float64(all.Count) * float64(its.LookedAt) / float64(all.LookedAt)))
	}
	return its
}
