package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/route"
)

// If a category's throughput has units for only some of the targets, the quota units of the other targets
// are given back.
func TestUnusableUnitsAreReturned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		quota := func(key string, count, burst int) route.Quota {
			return route.Quota{Key: key, Spec: func() meter.Spec {
				return meter.Spec{Rates: []throttle.Rate{{Count: count, Period: time.Minute}}, Burst: burst}
			}}
		}
		routes := route.New(route.Config{
			Senders: map[string]map[push.Platform]providers.Sender{"shop": {push.FCM: nil}}, Concurrency: 1, Meter: meter.NewRedis(redistest.InBubble(t), ""),
			Quotas:      map[string]map[push.Platform]route.Quota{"shop": {push.FCM: quota("fcm", 600, 10)}},
			Throughputs: map[string]map[string]route.Quota{"shop": {"news": quota("news", 6, 1)}},
		})
		defer routes.Units.Close()
		const targets = 5
		d := &delivery{
			Notification: &push.Notification{}, routes: make([]*route.Route, targets), outcomes: make([]outcome, targets),
			throughput: routes.Throughput("shop", "news"), metered: true,
		}
		fcm := routes.Of("shop")[push.FCM]
		for i := range d.routes {
			d.routes[i] = fcm
		}
		if !(units{pools: routes.Units}).take(t.Context(), d) {
			t.Fatal("there is none")
		}
		with := 0
		for i := range d.outcomes {
			if !d.outcomes[i].until.IsZero() {
				with++
			}
		}
		taken := fcm.Quota.Stats().Taken
		_, lacking := routes.Units.Take(t.Context(), []meter.Need{{Pool: fcm.Quota, Units: targets - 1}}, meter.Ordinary, 0)
		if with != 1 || lacking != nil || fcm.Quota.Stats().Taken != taken {
			t.Errorf("%d have units of both, and of the others' none is left: %v", with, lacking)
		}
	})
}
