package overview

import (
	"math"

	"github.com/pushpace/pushpace/internal/access"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/worker/control"
)

// Of returns what of the overview the bearer sees: all of it, or what is its apps'. What
// is counted for all apps together is estimated from what was looked at, and marked as
// sampled, or left out.
func (o *Overview) Of(who access.Bearer) *Overview {
	if who.Apps == nil {
		return o
	}
	its := &Overview{
		At: o.At, Apps: who.Apps, Workers: WorkersOf(o.Workers, who),
		Queues: []Queue{}, Minutes: []control.Minute{}, Pauses: who.Pauses(o.Pauses), Letters: o.Letters.of(who), Redis: []redisconn.Node{},
	}
	its.Providers = providersOf(its.Workers)
	its.Waits, its.Sampled = control.SharesOf(o.Waits, who.Sees)
	for _, s := range its.Waits {
		its.Waiting += s.Count
	}
	return its
}

// WorkersOf returns what of the workers the bearer sees.
func WorkersOf(all []control.Snapshot, who access.Bearer) []control.Snapshot {
	if who.Apps == nil {
		return all
	}
	its := make([]control.Snapshot, len(all))
	for i := range all {
		its[i] = all[i].Of(who.Sees)
	}
	return its
}

// of estimates the letters of the bearer's apps.
func (l *Letters) of(who access.Bearer) Letters {
	its := Letters{Sampled: int64(l.LookedAt) < l.Count, Reasons: map[string]int{}}
	for app, reasons := range l.by {
		if !who.Sees(app) {
			continue
		}
		for reason, n := range reasons {
			its.Reasons[reason] += n
			its.LookedAt += n
		}
	}
	its.Count = int64(its.LookedAt)
	if its.Sampled && l.LookedAt > 0 { // those that were counted may be gone
		its.Count = int64(math.Round(float64(l.Count) * float64(its.LookedAt) / float64(l.LookedAt)))
	}
	return its
}
