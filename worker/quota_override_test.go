package worker_test

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker"
)

// A quota's override applies to the next push. When the override ends, the waiting jobs leave long before
// the time to which they were deferred.
func TestQuotaOverrideWakesWaitingJobs(t *testing.T) {
	t.Parallel()
	const key, n = "fcm/demo", 10
	r, o := tuned(t, realRedis(t), throttle.Policy{}, nil)
	policies := r.options.Limits
	r.options.Meter = meter.NewRedis(r.client, "pushpace")
	r.options.Quotas = map[string]map[push.Platform]worker.Quota{"shop": {push.FCM: {Key: key, Spec: func() meter.Spec {
		rate := throttle.Rate{Count: 1000, Period: time.Second}
		if overridden, found := policies.Quota(key); found {
			rate = overridden
		}
		return meter.Spec{Rates: []throttle.Rate{rate}, Life: redistest.Patience} // the unit of the hour does not expire
	}}}}
	hourly := throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: time.Hour}}}
	must(t, o.Set(t.Context(), limits.Override{Level: limits.Level{Quota: key}, Policy: hourly, By: "ann"}))
	r.startTwo()
	r.enqueueAll(n, "over", func(*push.Notification) {})
	queued := inspect.New(r.client, r.records, nil, policies)
	wait(t, func() bool {
		waiting, err := queued.Queued(t.Context(), inspect.Selection{}, "")
		must(t, err)
		later := 0
		for _, q := range waiting.Waiting {
			if q.For == inspect.ForQuota && time.Until(q.Until) > time.Minute {
				later++
			}
		}
		return later == n-1
	})
	r.enqueue(to("flows")) // the waiting notifications do not delay other ones
	wait(t, func() bool { return len(r.pushed("flows")) == 1 })
	if sent := len(r.fcm.Ledger().Entries()); sent != 1 {
		t.Errorf("%d were sent, and one may be in an hour", sent)
	}
	_, err := o.Unset(t.Context(), limits.Level{Quota: key}, "ann")
	must(t, err)
	r.settled(n + 1)
}
