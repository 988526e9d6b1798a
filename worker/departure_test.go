package worker_test

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// What is over its user's limit is put off at once, however long others wait for a place
// before its provider: it takes up nobody's.
func TestWhatIsOverItsLimitWaitsForNoPlace(t *testing.T) {
	r := newRig(t, oneRedis(t), limits.New(throttle.Policy{MinGap: time.Hour}, nil))
	r.options.Concurrency, r.options.ShutdownTimeout = 1, time.Millisecond
	r.apns.RespondAlways(standin.Answer{Delay: time.Hour})
	// both are pulled at once, before the provider is known to be stuck
	r.enqueue(to("first"))
	r.enqueue(to("second"))
	r.start()
	wait(t, func() bool { return r.apns.Count().InFlight == 1 })
	wait(t, func() bool { return r.seen.deferrals() == 1 })
	if c := r.apns.Count(); c.Received != 1 || c.InFlight != 1 {
		t.Errorf("it is put off when the first is no longer in flight: %+v", c)
	}
}
