package worker

import (
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/route"
)

// busy reports whether the delivery is not to be sent now, since what is sent could not be
// recorded or its providers have no room, and brings it back.
func (a *admission) busy(d *delivery, now time.Time) (to disposition, over bool) {
	if a.queue.Refused(d.queue) {
		return snooze(queue.Return{Why: queue.RedisRefuses, After: route.BusyDelay}), true
	}
	delay := route.Busy(d.needs, d.Priority, now)
	return snooze(queue.Return{Why: queue.ProviderBusy, After: delay}), delay > 0
}

// foundBusy brings a job back that found no place in a bulkhead.
func (a *admission) foundBusy(d *delivery, now time.Time) disposition {
	to, busy := a.busy(d, now)
	if !busy {
		to.back.After = route.BusyDelay
	}
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
