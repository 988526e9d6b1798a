package worker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// What is over its user's limit is put off at once, however long others wait for a place
// before its provider: it takes up nobody's.
func TestWhatIsOverItsLimitWaitsForNoPlace(t *testing.T) {
	r := newRig(t, oneRedis(t), limits.New(throttle.Policy{MinGap: time.Hour}, nil))
	r.options.Concurrency, r.options.ShutdownTimeout = 1, time.Millisecond
	r.apns.RespondAlways(standin.Answer{Delay: 10 * time.Second})
	// both are pulled at once, before the provider is known to be stuck
	r.enqueue(to("first"))
	r.enqueue(to("second"))
	r.start()
	wait(t, func() bool { return r.apns.Count().InFlight == 1 })
	wait(t, func() bool {
		r.seen.mu.Lock()
		defer r.seen.mu.Unlock()
		return len(r.seen.deferred) == 1
	})
	if c := r.apns.Count(); c.Received != 1 || c.InFlight != 1 {
		t.Errorf("it is put off when the first is no longer in flight: %+v", c)
	}
}

// What is admitted while there is no connection yet keeps its distance at the
// provider: it does not leave together with what was admitted later.
func TestAColdWorkerKeepsItsDistances(t *testing.T) {
	const users, each = 10, 3
	// a connection is there, for all but the first, later than two are admitted
	const gap, cold, tolerance = time.Second, 1500 * time.Millisecond, 400 * time.Millisecond
	r := newRig(t, oneRedis(t), limits.New(throttle.Policy{MinGap: gap}, nil))
	r.apns.RespondAlways(standin.Answer{Delay: cold})
	r.start()
	for i := range each {
		for u := range users {
			n := to(fmt.Sprintf("%d-%d", u, i))
			n.User = fmt.Sprint(u)
			r.enqueue(n)
		}
	}
	r.settled(users * each)
	last := map[string]time.Time{}
	early := 0 // a machine that stalls has some, and without a look at the connection there are everybody's
	for _, e := range r.pushed("") {
		user := e.Notification[:1]
		if before, ok := last[user]; ok && e.At.Sub(before) < gap-tolerance {
			t.Logf("%s comes %s after the one before, want %s", e.Notification, e.At.Sub(before), gap)
			early++
		}
		last[user] = e.At
		if record := r.record(e.Notification); record.State != push.Delivered || record.Attempts != 1 {
			t.Errorf("%s: %+v", e.Notification, record)
		}
	}
	if early > users*(each-1)/2 {
		t.Errorf("%d of %d come too soon", early, users*(each-1))
	}
}
