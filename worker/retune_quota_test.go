package worker_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/queue"
)

// A quota that is overridden binds whoever sends from then on, and who waits for it comes
// when there is more, long before the instant until which it was put off.
func TestOverriddenQuota(t *testing.T) {
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
		return meter.Spec{Rates: []throttle.Rate{rate}, Life: redistest.Patience} // the one of the hour does not lapse
	}}}}
	hourly := throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: time.Hour}}}
	must(t, o.Set(t.Context(), limits.Override{Level: limits.Level{Quota: key}, Policy: hourly, By: "ann"}))
	r.startTwo()
	r.enqueueAll(n, "over", func(*push.Notification) {})
	queued := control.New(r.client, r.records, nil, policies)
	wait(t, func() bool {
		waiting, err := queued.Queued(t.Context(), control.Selection{}, "")
		must(t, err)
		later := 0
		for _, q := range waiting.Waiting {
			if q.For == control.ForQuota && time.Until(q.Until) > time.Minute {
				later++
			}
		}
		return later == n-1
	})
	r.enqueue(to("flows")) // who waits for the hour to end holds up nobody else
	wait(t, func() bool { return len(r.pushed("flows")) == 1 })
	if sent := len(r.fcm.Ledger().Entries()); sent != 1 {
		t.Errorf("%d were sent, and one may be in an hour", sent)
	}
	_, err := o.Unset(t.Context(), limits.Level{Quota: key}, "ann")
	must(t, err)
	r.settled(n + 1)
}

// A quota that is raised has its own come back, and leaves alone what is parked for another.
func TestARaisedQuotaLeavesOthersParked(t *testing.T) {
	t.Parallel()
	const n = 100
	r, o := tuned(t, realRedis(t), throttle.Policy{}, nil)
	policies := r.options.Limits
	r.options.Meter = meter.NewRedis(r.client, "pushpace")
	quota := func(key string) worker.Quota {
		return worker.Quota{Key: key, Spec: func() meter.Spec {
			rate, overridden := policies.Quota(key)
			if !overridden {
				rate = throttle.Rate{Count: 1, Period: time.Hour}
			}
			return meter.Spec{Rates: []throttle.Rate{rate}}.Promise()
		}}
	}
	r.options.Quotas = map[string]map[push.Platform]worker.Quota{"shop": {push.FCM: quota("raised"), push.APNs: quota("other")}}
	r.start()
	enqueue := func(from, to int) {
		for i := from; i < to; i++ {
			r.enqueueAll(1, fmt.Sprint("raised-", i), func(*push.Notification) {})
			r.enqueueAll(1, fmt.Sprint("other-", i), func(n *push.Notification) { n.Targets = []push.Target{apple} })
		}
		wait(t, func() bool { // one of each may be sent
			jobs, err := queue.ReadJobs(t.Context(), r.client, r.records)
			must(t, err)
			of := queue.Sum(jobs)[push.Default.Queue()]
			return of[queue.JobPending]+of[queue.JobActive] == 0 && of[queue.JobPutOff] >= int64(2*to-2)
		})
	}
	enqueue(0, 5)
	enqueue(5, n) // after it is known that there is none
	// parked are those of the platform that were never in a worker's hands
	parked := func(name string) map[string]bool {
		all := map[string]bool{}
		for position, more := uint64(0), true; more; more = position > 0 {
			jobs, next, err := queue.NewInspector(r.client, home(r.client).Shard).Page(t.Context(), queue.Spot{Queue: push.Default.Queue(), State: queue.JobPutOff}, position)
			must(t, err)
			for _, job := range jobs {
				if job.Last.Why == "" && strings.HasPrefix(job.ID, name) {
					all[job.ID] = true
				}
			}
			position = next
		}
		return all
	}
	before := parked("other")
	if len(before) == 0 || len(parked("raised")) == 0 {
		t.Fatalf("%d and %d are parked", len(before), len(parked("raised")))
	}
	must(t, o.Set(t.Context(), limits.Override{Level: limits.Level{Quota: "raised"}, Policy: throttle.Policy{Rates: []throttle.Rate{{Count: 6000, Period: time.Minute}}}, By: "ann"}))
	wait(t, func() bool { return len(r.pushed("")) > n/2 }) // one that was just pulled may be parked once more
	if after := parked("other"); !maps.Equal(after, before) {
		t.Errorf("of the other quota %v were parked, and now %v", before, after)
	}
}
