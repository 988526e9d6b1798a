package worker

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

// Each reason decides why the job returns, and its park name or its delay.
func TestReasonDecidesReturn(t *testing.T) {
	t.Parallel()
	quota := route.Quota{Key: "fcm/x", Spec: func() meter.Spec {
		return meter.Spec{Rates: []throttle.Rate{{Count: 10, Period: time.Second}}}.Promise()
	}}
	routes := route.New(route.Config{
		Senders: map[string]map[push.Platform]providers.Sender{"shop": {push.FCM: nil, push.APNs: nil}}, Concurrency: 1,
		Quotas: map[string]map[push.Platform]route.Quota{"shop": {push.FCM: quota}}, Throughputs: map[string]map[string]route.Quota{"shop": {"news": {Key: "news", Spec: quota.Spec}}},
	})
	r := routes.Of("shop")[push.FCM]
	const way = "shop/fcm"
	for name, c := range map[string]struct {
		skip  skip
		want  store.Return
		parks string
	}{
		"paused":           {skip{reason: pausedByOperator, pause: &pause.Pause{App: "shop"}}, store.Return{Why: store.ProviderPaused, After: store.MinParkTime}, way},
		"category paused":  {skip{reason: pausedByOperator, pause: &pause.Pause{Category: "news"}}, store.Return{Why: store.ProviderPaused, After: store.MinParkTime}, store.PauseName(`["","","news"]`)},
		"closed":           {skip{reason: routeClosed}, store.Return{Why: store.ProviderPaused, After: store.MinParkTime}, way},
		"full":             {skip{reason: routeFull}, store.Return{Why: store.ProviderBusy, After: store.MinParkTime}, way},
		"suspect":          {skip{reason: suspect, left: store.RetryDelay}, store.Return{Why: store.ProviderPaused, After: store.RetryDelay}, ""},
		"not connected":    {skip{reason: notConnected}, store.Return{Why: store.TooLate, After: store.MinParkTime}, way},
		"no units":         {skip{reason: noUnits, pool: r.Quota}, store.Return{Why: store.OverQuota, Key: "fcm/x", Detail: "10/1s", After: store.MinParkTime}, way},
		"no throughput":    {skip{reason: noUnits, pool: routes.Throughput("shop", "news")}, store.Return{Why: store.OverQuota, Key: "news", Detail: "10/1s", After: store.MinParkTime}, store.QuotaName("news")},
		"device":           {skip{reason: overDevice, rule: "3/1h", left: 7 * time.Second}, store.Return{Why: store.OverDevice, Key: "3/1h", After: 7 * time.Second}, ""},
		"device unmetered": {skip{reason: deviceUnmetered, cause: "away", left: store.RetryDelay}, store.Return{Why: store.DeviceUnmetered, Detail: "away", After: store.RetryDelay}, ""},
		"origin backoff":   {skip{reason: originBackoff, cause: "down", left: time.Second}, store.Return{Why: store.LeftAlone, Detail: "down", After: time.Second}, ""},
	} {
		d := &delivery{Notification: new(push.Notification), routes: []*route.Route{r}, outcomes: []outcome{{skip: c.skip}}}
		if got, park := d.requeueSkipped(c.skip); got != c.want || park != c.parks {
			t.Errorf("%s: %+v by %q, want %+v by %q", name, got, park, c.want, c.parks)
		}
	}
	closed := outcome{skip: skip{reason: routeClosed}}
	both := &delivery{Notification: new(push.Notification), routes: []*route.Route{r, routes.Of("shop")[push.APNs]}, outcomes: []outcome{closed, closed}}
	if _, park := both.requeueSkipped(closed.skip); park != store.ParkName([]string{way, "shop/apns"}) {
		t.Errorf("two closed routes: by %q", park)
	}
}

// One of several reasons decides when the job is retried.
func TestMostUrgentSkipDecidesRetry(t *testing.T) {
	t.Parallel()
	paused, closed, units := skip{reason: pausedByOperator}, skip{reason: routeClosed}, skip{reason: noUnits}
	device := skip{reason: overDevice, left: time.Minute}
	sooner := skip{reason: deviceUnmetered, left: time.Second}
	for name, c := range map[string]struct {
		skips []skip
		want  skip
	}{
		"none":                           {[]skip{{}, {}}, skip{}},
		"one of two":                     {[]skip{{}, closed}, closed},
		"the first of two like it":       {[]skip{paused, closed}, paused},
		"units":                          {[]skip{closed, device, units, sooner}, units},
		"a device":                       {[]skip{closed, device}, device},
		"the device that is free sooner": {[]skip{device, sooner, paused}, sooner},
	} {
		var outcomes []outcome
		for _, s := range c.skips {
			outcomes = append(outcomes, outcome{skip: s})
		}
		if got := decidingSkip(outcomes); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// A job that waits for units or permits keeps its slot, and any other skipped job gives it back. Neither is
// an attempt.
func TestUnsentNotificationCostsNoAttempt(t *testing.T) {
	t.Parallel()
	for reason, want := range map[reason]release{
		noUnits: nothing, routeFull: nothing, routeClosed: slotQuietly, pausedByOperator: slotQuietly, overDevice: slotQuietly, deviceUnmetered: slotQuietly,
	} {
		d := &delivery{outcomes: []outcome{{skip: skip{reason: reason}}}}
		to, _ := d.finishAttempt(budget{1, time.Hour}, time.Unix(1, 0), 0.5).(requeue)
		if to.release != want || d.hasAttempt || to.skipped.reason != reason || d.attempts != 0 || !d.first.IsZero() {
			t.Errorf("%d: %+v after %d attempts", reason, to, d.attempts)
		}
	}
}

// A backoff of the target's server costs no attempt, but its time counts as retry time.
func TestOriginBackoffCountsAsRetryTime(t *testing.T) {
	t.Parallel()
	alone := outcome{skip: skip{reason: originBackoff, cause: "down", left: time.Minute}}
	now := time.Unix(10_000, 0)
	for name, c := range map[string]struct {
		outcomes []outcome
		first    time.Time
		state    push.State
	}{
		"at first":                 {[]outcome{alone}, time.Time{}, push.Waiting},
		"for long":                 {[]outcome{alone}, now.Add(-time.Hour), push.Waiting},
		"for too long":             {[]outcome{alone}, now.Add(-time.Hour - 1), push.Exhausted},
		"for too long, one is not": {[]outcome{alone, delivered}, now.Add(-time.Hour - 1), push.Delivered},
	} {
		d := &delivery{outcomes: c.outcomes, first: c.first}
		to := d.finishAttempt(budget{1, time.Hour}, now, 0.5)
		if stateOf(to) != c.state || d.hasAttempt || d.attempts != 0 || d.first.IsZero() {
			t.Errorf("%s: %+v after %d attempts, the first at %v", name, to, d.attempts, d.first)
		}
		if to, waits := to.(requeue); waits && to.skipped != alone.skip {
			t.Errorf("%s: kept by %+v", name, to.skipped)
		}
		if to, ends := to.(end); ends && to.state == push.Exhausted && (to.reason != string(providers.OriginBackoff) || to.problem != "down") {
			t.Errorf("%s: ended for %q, %q", name, to.reason, to.problem)
		}
	}
}
