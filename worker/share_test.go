package worker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

// bound bounds what all workers may have in flight to APNs for the app "shop".
func (r *rig) bound(places int) {
	r.options.InFlight = map[string]map[push.Platform]int{"shop": {push.APNs: places}}
}

const shareKey = "pushpace:{share/shop%2Fapns}"

// A notification to several devices takes one place, and so they come one after the other.
func TestTargetsOfAShareComeOneByOne(t *testing.T) {
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

// A share that cannot be renewed ends with what is in flight by it. What is for the
// provider waits then, at no attempt, and says so; the other provider's goes on.
func TestAShareThatCannotBeRenewed(t *testing.T) {
	const n = 20
	client := oneRedis(t)
	r := newRig(t, client, unlimited)
	log := r.logs()
	r.bound(2)
	r.apns.RespondAlways(standin.Answer{Fault: standin.BlackHole})
	r.start()
	r.enqueue(to("cut-off"))
	wait(t, func() bool { return r.apns.Count().InFlight == 1 })
	must(t, client.Set(t.Context(), shareKey, "another's", 0).Err())
	wait(t, func() bool {
		outcomes := r.record("cut-off").Outcomes
		return len(outcomes) == 1 && outcomes[0].Reason == string(providers.Cancelled)
	})
	wait(t, func() bool { return r.apns.Count().InFlight == 0 })
	if !strings.Contains(log.text(), "in flight is not renewed") || !strings.Contains(log.text(), "WRONGTYPE") {
		t.Errorf("the log says %s", log.text())
	}
	r.apns.Recover()
	r.enqueueMany("waits", n, apple)
	r.enqueueMany("flows", n, google)
	r.settled(n)
	wait(t, func() bool { return r.shares(n + 1)[control.ForProvider].Count >= n })
	if got := r.apns.Count().Received; got != 1 {
		t.Errorf("%d pushes came without a share", got-1)
	}
	must(t, client.Del(t.Context(), shareKey).Err())
	if counts := r.settled(2*n + 1); counts.Ended[push.Delivered] != 2*n+1 {
		t.Errorf("%+v", counts)
	}
	for i := range n {
		if got := r.record(fmt.Sprintf("waits-%d", i)).Attempts; got != 1 {
			t.Errorf("%d attempts", got)
		}
	}
}
