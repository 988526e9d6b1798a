package worker_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker"
)

// An asked meter counts the asks that say that the provider is in trouble.
type asked struct {
	meter.Meter
	slow atomic.Int64
}

func (a *asked) Take(ctx context.Context, key string, s meter.Spec, ask meter.Ask) (meter.Answer, error) {
	if ask.Slow {
		a.slow.Add(1)
	}
	return a.Meter.Take(ctx, key, s, ask)
}

// The meter is told when FCM refuses pushes for its quota, and when FCM is down. Then all
// workers slow down.
func TestTroubleSlowsTheRamp(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]standin.Answer{
		"over its quota": {Status: http.StatusTooManyRequests, RetryAfter: 2 * time.Second}, "down": {Status: http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const good, bad = 10, 20
			r := newRig(t, realRedis(t), unlimited)
			r.options.Hasten(100*time.Millisecond, 0, 0)
			a := &asked{Meter: meter.NewRedis(r.client, redistest.Prefix())}
			ramp := meter.Spec{Rates: []throttle.Rate{{Count: 60_000, Period: time.Minute}}, Ramp: time.Minute}
			r.options.Meter = a
			r.options.Quotas = map[string]map[push.Platform]worker.Quota{"shop": {push.FCM: {Key: "fcm/shop", Spec: ramp.Promise}}}
			own := func(n *push.Notification) { n.Targets[0].Token = n.ID }
			r.start()
			r.enqueueAll(good, "good", own)
			r.settled(good)
			if n := a.slow.Load(); n > 0 {
				t.Errorf("slowed %d times by what was taken", n)
			}
			r.fcm.RespondAlways(answer)
			r.enqueueAll(bad, "bad", own)
			wait(t, func() bool { return a.slow.Load() > 0 })
			r.fcm.Recover()
			if counts := r.settled(good + bad); counts.Ended[push.Delivered] != good+bad {
				t.Errorf("%+v", counts)
			}
		})
	}
}
