package worker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// bound sets the permits that all workers share for pushes of the shop to APNs.
func (r *rig) bound(places int) {
	r.options.InFlight = map[string]map[push.Platform]int{"shop": {push.APNs: places}}
}

// A notification to several devices takes one permit, and so its pushes leave one after the other.
func TestSharedPermitSendsTargetsOneByOne(t *testing.T) {
	const n = 5
	r := newRig(t, oneRedis(t), hourly)
	r.apns.RespondAlways(standin.Answer{Delay: 50 * time.Millisecond})
	r.bound(1)
	r.start()
	var targets []push.Target
	for i := range n {
		targets = append(targets, push.Target{Platform: push.APNs, Token: fmt.Sprintf("%064x", i)})
	}
	r.enqueue(to("family", targets...))
	r.settled(1)
	if got := r.record("family"); got.State != push.Delivered || got.Attempts != 1 || len(r.pushed("")) != n || r.apns.Count().Peak != 1 {
		t.Errorf("%+v with %d pushes, %d at once", got, len(r.pushed("")), r.apns.Count().Peak)
	}
}
