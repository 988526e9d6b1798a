package worker_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker"
)

// quota returns a quota with one rate.
func quota(key string, rate throttle.Rate, burst int) worker.Quota {
	return worker.Quota{Key: key, Spec: func() meter.Spec {
		return meter.Spec{Rates: []throttle.Rate{rate}, Burst: burst}.Promise()
	}}
}

// realMeter returns a meter on a real Redis, as a take is slow on miniredis.
func realMeter(t *testing.T) meter.Meter {
	client, stop := pipeline.Share(redistest.Shared(t).Client(t), pipeline.Options{Timeout: redistest.Patience})
	t.Cleanup(stop)
	return meter.NewRedis(client, redistest.Prefix())
}

// meterFCM sets a quota of FCM for all workers of the rig.
func (r *rig) meterFCM(rate throttle.Rate, burst int) {
	r.options.Meter = realMeter(r.t)
	r.options.Quotas = map[string]map[push.Platform]worker.Quota{"shop": {push.FCM: quota("fcm/demo", rate, burst)}}
}

// A notification over quota waits for units, and spends no attempt and no slot. A notification to several
// devices costs a unit for each device.
func TestQuotaLimitsAllWorkers(t *testing.T) {
	const n, families, devices, count, period = 30, 6, 5, 20, time.Second
	const units = n + families*devices
	r := newRig(t, oneRedis(t), limits.New(throttle.Policy{Rates: []throttle.Rate{{Count: 5, Period: time.Hour}}}, nil))
	r.meterFCM(throttle.Rate{Count: count, Period: period}, 5)
	r.start()
	r.start()
	r.enqueueAll("over", n, nil, google)
	r.enqueueAll("family", families, func(_ int, one *push.Notification) {
		one.Targets = nil
		for k := range devices {
			one.Targets = append(one.Targets, push.Target{Platform: push.FCM, Token: fmt.Sprint(one.ID, "-", k)})
		}
	})
	if counts := r.settled(n + families); counts.Ended[push.Delivered] != n+families {
		t.Fatalf("%+v", counts)
	}
	sent := r.fcm.Ledger().Entries()
	if took := sent[len(sent)-1].At.Sub(sent[0].At); len(sent) != units || took < (units/count-2)*period {
		t.Errorf("%d are sent within %v", len(sent), took)
	}
	for i := range n {
		id := fmt.Sprintf("over-%d", i)
		if record := r.record(id); record.Attempts != 1 || record.Deferrals != 0 {
			t.Errorf("%s: %d attempts, %d deferrals", id, record.Attempts, record.Deferrals)
		}
		if timeline := r.timeline(id); len(timeline.Admissions[throttle.General]) != 1 || len(timeline.Bookings) != 0 {
			t.Errorf("%s: %+v", id, timeline)
		}
	}
}

// With an exhausted quota, critical notifications leave before the waiting bulk notifications.
func TestCriticalGoesFirstOnExhaustedQuota(t *testing.T) {
	r := newRig(t, oneRedis(t), unlimited)
	r.meterFCM(throttle.Rate{Count: 60, Period: time.Minute}, 20)
	r.start()
	r.enqueueAll("bulk", 60, func(_ int, n *push.Notification) { n.Priority = push.Bulk }, google)
	wait(t, func() bool { return len(r.pushed("")) >= 18 })
	r.enqueueAll("code", 2, func(_ int, n *push.Notification) { n.Priority = push.Critical }, google)
	wait(t, func() bool { return len(r.pushed("code-0"))+len(r.pushed("code-1")) == 2 })
	if sent := len(r.pushed("")); sent > 40 {
		t.Errorf("they have waited for %d others", sent)
	}
}

// The status of a notification over quota names the quota, and until when the notification waits.
func TestStatusReportsQuotaWait(t *testing.T) {
	client := oneRedis(t)
	r := newRig(t, client, unlimited)
	r.meterFCM(throttle.Rate{Count: 6, Period: time.Minute}, 1)
	r.start()
	const n = 40
	r.enqueueAll("over", n, nil, google)
	operator := inspect.New(r.client, r.records, nil, r.options.Limits)
	// all but the sent notifications
	wait(t, func() bool { return r.shares(100)[inspect.ForQuota].Count >= n-10 })
	wait(t, func() bool { // for the quota, and not for a slow worker
		waiting := 0
		for i := range n {
			status, err := operator.Status(t.Context(), push.Ref{ID: fmt.Sprintf("over-%d", i)})
			must(t, err)
			if status.State.Ended() || status.Waits.For == inspect.InHand || status.Waits.For == inspect.ForWorker { // it comes back just now
				continue
			}
			if waiting++; status.Waits.For != inspect.ForQuota || !strings.HasSuffix(status.Waits.Reason, "fcm/demo: 6/1m") {
				t.Errorf("%s waits for %+v", status.ID, status.Waits)
			}
		}
		return waiting >= n-10
	})
	wait(t, func() bool { // or there is a unit just now
		list, err := operator.Queued(t.Context(), inspect.Selection{For: inspect.ForQuota}, "")
		must(t, err)
		if len(list.Waiting) == 0 {
			return false
		}
		status, err := operator.Status(t.Context(), list.Waiting[0].Ref())
		must(t, err)
		return !list.Waiting[0].Until.IsZero() && status.Waits != nil && !status.Waits.Until.IsZero()
	})
}

// A throughput limits a category over all users. Each user's limits hold as well.
func TestThroughputLimitsCategory(t *testing.T) {
	const n, count, period = 60, 20, time.Second
	r := newRig(t, oneRedis(t), limits.New(throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: time.Hour}}}, nil))
	r.options.Meter = realMeter(r.t)
	r.options.Throughputs = map[string]map[string]worker.Quota{"shop": {"news": quota("category/shop/news", throttle.Rate{Count: count, Period: period}, 5)}}
	r.start()
	r.enqueueAll("news", n, func(_ int, n *push.Notification) { n.Category = "news" }, google)
	r.enqueueAll("other", n, nil, google)
	r.enqueueAll("twice", 2, func(_ int, n *push.Notification) { n.Category, n.User = "news", "twice" }, google)
	r.settled(2*n + 1)
	wait(t, func() bool { // the second one of "twice" has a slot in an hour
		return len(r.timeline("twice").Bookings) == 1
	})
	var news []time.Time
	for _, e := range r.fcm.Ledger().Entries() {
		if strings.HasPrefix(e.Notification, "news") {
			news = append(news, e.At)
		}
	}
	if took := news[n-1].Sub(news[0]); len(news) != n || took < (n/count-2)*period {
		t.Errorf("%d are sent within %v", len(news), took)
	}
}

// While the meter is unreachable, nothing is sent on a route with a quota. Other routes send. The status
// and the log have the reason, and the route recovers with the meter.
func TestUnreachableMeterBlocksOnlyItsRoute(t *testing.T) {
	client := oneRedis(t)
	r := newRig(t, client, unlimited)
	r.meterFCM(throttle.Rate{Count: 6000, Period: time.Minute}, 100)
	away := &awayMeter{Meter: r.options.Meter}
	away.on.Store(true)
	r.options.Meter = away
	log := r.logs()
	r.start()
	r.enqueue(to("metered", google))
	r.enqueue(to("flows"))
	r.settled(1)
	operator := inspect.New(r.client, r.records, nil, r.options.Limits)
	wait(t, func() bool {
		status, err := operator.Status(t.Context(), push.Ref{ID: "metered"})
		must(t, err)
		return status.Waits.For == inspect.ForQuota && strings.HasSuffix(status.Waits.Reason, "fcm/demo are unknown: the meter is away")
	})
	const told = "the remaining units of a quota are unknown"
	wait(t, func() bool { return strings.Contains(log.String(), told) })
	if text := log.String(); !strings.Contains(text, "quota=fcm/demo") || !strings.Contains(text, "the meter is away") {
		t.Error(text)
	}
	if sent := r.pushed(""); len(sent) != 1 || sent[0].Notification != "flows" {
		t.Errorf("%+v", sent)
	}
	away.on.Store(false)
	r.settled(2)
	if record := r.record("metered"); record.State != push.Delivered || record.Attempts != 1 {
		t.Errorf("%+v", record)
	}
	wait(t, func() bool { return strings.Contains(log.String(), "the remaining units of a quota are known again") })
	if n := strings.Count(log.String(), told); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

// An awayMeter answers nothing while it is on.
type awayMeter struct {
	meter.Meter
	on atomic.Bool
}

func (f *awayMeter) Take(ctx context.Context, key string, s meter.Spec, a meter.Ask) (meter.Answer, error) {
	if f.on.Load() {
		return meter.Answer{}, errors.New("the meter is away")
	}
	return f.Meter.Take(ctx, key, s, a)
}

// guardDevices limits each device to two pushes in the period.
func (r *rig) guardDevices(m meter.Meter, period time.Duration) {
	r.options.Meter = m
	r.options.Device = func() meter.Spec {
		return meter.Spec{Algorithm: meter.SlidingWindow, Rates: []throttle.Rate{{Count: 2, Period: period}, {Count: 1000, Period: 24 * time.Hour}}}
	}
}

// overDevice reports whether the notification waits for its device's limit with the reason why.
func (r *rig) overDevice(id, why string) bool {
	r.t.Helper()
	status, err := inspect.New(r.client, r.records, nil, r.options.Limits).Status(r.t.Context(), push.Ref{ID: id})
	must(r.t, err)
	w := status.Waits
	return w != nil && w.For == inspect.ForQuota && w.Reason == why && !w.Until.IsZero()
}

// A device's limit counts the pushes of all users and workers, including exempt and critical ones.
// Further pushes wait without an attempt or a slot. Other devices do not wait.
func TestDeviceLimitHoldsForAllWorkers(t *testing.T) {
	r := newRig(t, oneRedis(t), limits.New(throttle.Policy{Rates: []throttle.Rate{{Count: 5, Period: time.Hour}}}, map[string]throttle.Policy{"security": {Exempt: true}}))
	r.guardDevices(realMeter(t), time.Hour)
	r.start()
	r.start()
	send := func(id string, with func(*push.Notification), targets ...push.Target) {
		one := to(id, targets...)
		one.User = id
		with(one)
		r.enqueue(one)
	}
	plain := func(*push.Notification) {}
	exempt := func(n *push.Notification) { n.Category, n.Priority = "security", push.Critical }
	send("first", plain, google)
	send("second", exempt, google)
	r.settled(2)
	send("beyond", plain, google)
	send("urgent", exempt, google)
	send("both", plain, apple, google)
	send("other", plain, push.Target{Platform: push.FCM, Token: "another"})
	r.settled(3)
	for id, attempts := range map[string]int{"beyond": 0, "urgent": 0, "both": 1} {
		wait(t, func() bool { return r.overDevice(id, "over the device's limit 2/1h") })
		if record := r.record(id); record.State.Ended() || record.Attempts != attempts || record.Deferrals != 0 {
			t.Errorf("%s: %+v", id, record)
		}
		if line := r.timeline(id); len(line.Admissions[throttle.General]) != attempts || len(line.Bookings) != 0 {
			t.Errorf("%s: %+v", id, line)
		}
	}
	if sent := r.fcm.Ledger().Entries(); len(sent) != 3 || len(r.pushed("both")) != 1 || len(r.pushed("other")) != 1 {
		t.Errorf("%+v", sent)
	}
}

// A door is a meter that grants two units of a key, and any number once open is set.
type door struct {
	open atomic.Bool
	mu   sync.Mutex
	took map[string]int
}

func (d *door) Take(_ context.Context, key string, _ meter.Spec, a meter.Ask) (meter.Answer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a.Most > 0 && d.took[key]+a.Most > 2 && !d.open.Load() {
		return meter.Answer{Left: time.Second, Rule: "2/1h"}, nil
	}
	d.took[key] += a.Most
	return meter.Answer{Units: max(0, a.Most)}, nil
}

// A notification over its device's limit leaves when the limit allows another push, unless it expires first.
func TestDeviceLimitDelaysPushUntilUnitsAreFree(t *testing.T) {
	r := newRig(t, oneRedis(t), unlimited)
	door := &door{took: map[string]int{}}
	r.guardDevices(door, time.Hour)
	away := &awayMeter{Meter: r.options.Meter}
	r.options.Meter = away
	away.on.Store(true)
	log := r.logs()
	r.start()
	r.enqueueAll("n", 3, nil, google)
	for i := range 3 {
		wait(t, func() bool {
			return r.overDevice(fmt.Sprint("n-", i), "the remaining units of the device are unknown: the meter is away")
		})
	}
	if text := log.String(); !strings.Contains(text, "a device's limit cannot be checked") || !strings.Contains(text, "the meter is away") {
		t.Error(text)
	}
	away.on.Store(false)
	r.settled(2)
	r.enqueueAll("brief", 1, func(_ int, n *push.Notification) { n.TTL = push.Duration(2 * time.Second) }, google)
	if counts := r.settled(3); counts.Ended[push.Expired] != 1 || counts.Ended[push.Delivered] != 2 {
		t.Errorf("%+v", counts)
	}
	door.open.Store(true)
	r.settled(4)
	for i := range 3 {
		if record := r.record(fmt.Sprint("n-", i)); record.State != push.Delivered || record.Attempts != 1 {
			t.Errorf("%+v", record)
		}
	}
}

// A push that certainly was not sent does not count for its device. The device's key does not
// contain the token. A FID has its own key, even if its text equals a token's.
func TestDeviceLimitCountsSentPushes(t *testing.T) {
	r := newRig(t, oneRedis(t), unlimited)
	r.guardDevices(realMeter(t), time.Hour)
	must(t, r.apns.Close())
	r.start()
	r.enqueue(to("fails", apple))
	wait(t, func() bool { return r.record("fails").Attempts > 0 })
	key := fmt.Sprintf("device/apns/%.16x", sha256.Sum256([]byte(appleToken)))
	look := func(least int) bool {
		answer, err := r.options.Meter.Take(t.Context(), key, r.options.Device(), meter.Ask{Least: least})
		must(t, err)
		return answer.Left == 0
	}
	wait(t, func() bool { return look(2) })
	r.enqueue(to("flows", google))
	r.settled(1)
	r.enqueue(to("fid", toFID(googleToken)))
	r.settled(2)
	for _, kind := range []string{"fcm", "fcm/fid"} {
		key = fmt.Sprintf("device/%s/%.16x", kind, sha256.Sum256([]byte(googleToken)))
		if look(2) || !look(1) {
			t.Errorf("what is sent is not counted once under %s", key)
		}
	}
}

// A quota's override applies to the next push. When the override ends, the waiting jobs leave long before
// the time to which they were deferred.
func TestQuotaOverrideWakesWaitingJobs(t *testing.T) {
	t.Parallel()
	const key, n = "fcm/demo", 10
	r, o := tuned(t, redistest.Own(t), throttle.Policy{}, nil)
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
	r.enqueueAll("over", n, nil, google)
	wait(t, func() bool {
		later := 0
		for _, q := range r.queued(inspect.Selection{For: inspect.ForQuota}) {
			if time.Until(q.Until) > time.Minute {
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
