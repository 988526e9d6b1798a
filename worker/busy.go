package worker

import (
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/route"
)

// busy reports whether the delivery is not to be sent now, since what is sent could not be
// recorded or as many wait for its providers as may, and how it comes back.
func (a *admission) busy(d *delivery) (to disposition, over bool) {
	back := queue.Return{Why: queue.ProviderBusy, After: route.BusyDelay}
	if d.at.Refused(d.queue) {
		back.Why = queue.RedisRefuses
		return snooze(back), true
	}
	return snooze(back), route.Busy(d.needs, d.Priority)
}

// foundBusy brings a job back that found no place in a bulkhead.
func (a *admission) foundBusy(d *delivery) disposition {
	to, _ := a.busy(d)
	to.release = slot
	return to
}

// bulkheads are those that the delivery has to pass, each once, in an order that is
// the same for all.
func (d *delivery) bulkheads() []*route.Bulkhead {
	var needed []*route.Bulkhead
	for _, platform := range []push.Platform{push.APNs, push.FCM} {
		for i, r := range d.routes {
			if r != nil && r.Platform == platform && d.outcomes[i].due() {
				needed = append(needed, r.Bulkhead)
				break
			}
		}
	}
	return needed
}
