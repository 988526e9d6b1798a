package worker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
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

// sharers is how many workers have a share, or would like one.
func (r *rig) sharers() int64 {
	r.t.Helper()
	n, err := r.client.HLen(r.t.Context(), shareKey).Result()
	must(r.t, err)
	return n
}

// Workers who come and go have no more in flight together than they may, and all of it
// while there is enough to send. Without a bound nothing is shared.
func TestWorkersShareWhatMayBeInFlight(t *testing.T) {
	const places, n = 6, 80
	r := newRig(t, oneRedis(t), unlimited)
	r.options.ShutdownTimeout = redistest.Patience // what a worker has in hand as it stops is not cut off
	unbound := r.start()
	r.enqueue(to("unbound"))
	r.settled(1)
	if r.sharers() != 0 {
		t.Error("without a bound there are shares")
	}
	unbound()
	r.bound(places)
	r.enqueueMany("bound", n, apple)
	r.apns.RespondAlways(standin.Answer{Delay: time.Second}) // a slow machine, too, begins so many in that time
	first := r.start()
	pushed := func(n int) { wait(t, func() bool { return len(r.pushed("")) >= n }) }
	wait(t, func() bool { return r.apns.Count().Peak == places })
	r.apns.RespondAlways(standin.Answer{Delay: 50 * time.Millisecond})
	pushed(n / 8)
	second := r.start()
	wait(t, func() bool { return r.sharers() == 2 })
	pushed(n / 2)
	first()
	wait(t, func() bool { return r.sharers() == 1 }) // it gives its share back
	third := r.start()
	counts := r.settled(n + 1)
	attempts := 1
	for i := range n {
		attempts += r.record(fmt.Sprintf("bound-%d", i)).Attempts
	}
	pushes := len(r.pushed("")) // where a machine stands still a share ends, and what it cuts off is sent again
	if counts.Ended[push.Delivered] != n+1 || pushes < n+1 || pushes > attempts {
		t.Errorf("counts %+v with %d pushes at %d attempts", counts, pushes, attempts)
	}
	if peak := r.apns.Count().Peak; peak != places {
		t.Errorf("%d were in flight at once, want %d", peak, places)
	}
	second()
	third()
	wait(t, func() bool { return r.sharers() == 0 })
}

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
