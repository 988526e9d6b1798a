package app

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker"
)

func aMinute(count int) config.Quota {
	return config.Quota{Rate: throttle.Rate{Count: count, Period: time.Minute}}
}

// metered returns a configuration with two apps of one Firebase project, one of which shares a
// named quota with a third app, and a category with a throughput.
func metered(t *testing.T) *config.Config {
	t.Helper()
	server, err := fcmtest.NewServer(fcmtest.Options{})
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	credentials, err := server.WriteCredentials(t.TempDir())
	must(t, err)
	named, own := config.Shared{Quota: &config.AppQuota{Name: "europe"}}, config.Shared{Quota: &config.AppQuota{Quota: aMinute(700)}}
	return &config.Config{
		Limits: config.Limits{
			Quotas:     map[string]config.NamedQuota{"europe": {Quota: aMinute(600), Apps: []string{"shop", "till"}}},
			Categories: map[string]config.Category{"news": {Throughput: &config.Quota{Rate: throttle.Rate{Count: 50, Period: time.Second}}}, "chat": {}},
		},
		Apps: map[string]config.App{
			"shop": {APNs: &config.APNs{Shared: named}, FCM: &config.FCM{Config: credentials, Shared: own}},
			"till": {APNs: &config.APNs{Shared: named}},
			"web":  {FCM: &config.FCM{Config: credentials, Shared: own}, APNs: &config.APNs{Shared: config.Shared{Concurrency: 30}}},
			"solo": {APNs: &config.APNs{Shared: own}},
		},
	}
}

// togetherOf returns a system with only the quotas and throughputs.
func togetherOf(t *testing.T, cfg *config.Config) *System {
	t.Helper()
	s := &System{limits: limits.New(throttle.Policy{}, nil), meter: meter.NewRedis(redistest.Shared(t).Client(t), redistest.Prefix())}
	var err error
	s.quotas, err = operate.NewLiveQuotas(cfg)
	must(t, err)
	return s
}

// Apps that share a quota share its key, and the rates change with the configuration.
func TestAppsShareQuotaByKey(t *testing.T) {
	t.Parallel()
	cfg := metered(t)
	s := togetherOf(t, cfg)
	var o worker.Options
	must(t, s.limitTogether(&o, cfg))
	project, err := cfg.Apps["web"].FCM.Project()
	if err != nil || o.Meter == nil {
		t.Fatal(err, o.Meter)
	}
	for _, c := range []struct {
		got worker.Quota
		key string
		n   int
	}{
		{o.Quotas["shop"][push.APNs], "quota/europe", 600},
		{o.Quotas["till"][push.APNs], "quota/europe", 600},
		{o.Quotas["shop"][push.FCM], "fcm/" + project, 700},
		{o.Quotas["web"][push.FCM], "fcm/" + project, 700},
		{o.Quotas["solo"][push.APNs], "apns/solo", 700},
		{o.Throughputs["shop"]["news"], "category/shop/news", 50},
		{o.Throughputs["web"]["news"], "category/web/news", 50},
	} {
		if c.got.Key != c.key || c.got.Spec().Rates[0].Count != c.n || c.got.Spec().Life == 0 {
			t.Errorf("%s: %+v, want %d of %s", c.got.Key, c.got.Spec(), c.n, c.key)
		}
	}
	if _, limited := o.Throughputs["shop"]["chat"]; limited || len(o.Quotas["web"]) != 1 || o.InFlight["web"][push.APNs] != 30 || o.InFlight["shop"][push.APNs] != 0 {
		t.Errorf("%+v", o)
	}

	next := metered(t)
	next.Limits.Quotas["europe"] = config.NamedQuota{Quota: aMinute(6)}
	delete(next.Apps, "shop") // web keeps the project's quota
	next.Apps["web"] = config.App{FCM: &config.FCM{Config: next.Apps["web"].FCM.Config, Shared: config.Shared{Quota: &config.AppQuota{Quota: aMinute(7)}}}}
	next.Apps["solo"] = config.App{APNs: &config.APNs{Shared: config.Shared{Quota: &config.AppQuota{Name: "europe"}}}}
	delete(next.Limits.Categories, "news")
	s.quotas.Take(next)
	got := map[string]int{}
	for _, q := range s.quotas.List() {
		got[q.Key] = q.Rate.Count
	}
	// a quota that was removed, or needs a restart to change, stays
	if want := map[string]int{"quota/europe": 6, "fcm/" + project: 7, "apns/solo": 700, "category/shop/news": 50, "category/till/news": 50, "category/web/news": 50, "category/solo/news": 50}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if o.Quotas["till"][push.APNs].Spec().Rates[0].Count != 6 {
		t.Error("the worker's quota has not changed")
	}
}

// A device limit needs a meter, which a worker without quotas does not get, even if an unused one is
// configured. The configuration can change the device limit, but not remove it.
func TestDeviceLimitIsChangedButNotRemoved(t *testing.T) {
	t.Parallel()
	cfg, rates := metered(t), []throttle.Rate{{Count: 240, Period: time.Minute}, {Count: 5000, Period: time.Hour}}
	cfg.Limits.Categories, cfg.Apps = nil, map[string]config.App{"shop": {Simulated: true}}
	s := togetherOf(t, cfg)
	var o worker.Options
	limit := func() {
		t.Helper()
		must(t, s.limitTogether(&o, cfg))
	}
	if limit(); o.Meter != nil || o.Device != nil {
		t.Error("what nobody limits is counted")
	}
	cfg.Limits.Device = &config.Device{Quota: config.Quota{Rates: rates, Algorithm: meter.SlidingWindow}}
	if limit(); o.Meter == nil || !slices.Equal(o.Device().Rates, rates) || o.Device().Life != 0 {
		t.Errorf("%+v", o)
	}
	s.guardDevices(&config.Config{Limits: config.Limits{Device: &config.Device{Quota: config.Quota{Rates: rates[:1], Algorithm: meter.SlidingWindow}}}})
	s.guardDevices(new(config.Config))
	if got := o.Device().Rates; !slices.Equal(got, rates[:1]) {
		t.Errorf("%v", got)
	}
}

// An override of a quota's rate comes before the configured rate, now and after a change of it,
// while the two are compatible. It affects that quota alone.
func TestOverrideReplacesQuotasRate(t *testing.T) {
	t.Parallel()
	cfg := metered(t)
	europe := aMinute(600)
	europe.Burst = 60
	cfg.Limits.Quotas["europe"] = config.NamedQuota{Quota: europe, Apps: []string{"shop", "till"}}
	s, ctx := togetherOf(t, cfg), t.Context()
	var o worker.Options
	must(t, s.limitTogether(&o, cfg))
	overrides := limits.NewOverrides(redistest.Shared(t).Client(t), redistest.Prefix(), 0)
	const key = "quota/europe"
	set := func(rate throttle.Rate) {
		t.Helper()
		err := overrides.Set(ctx, limits.Override{Level: limits.Level{Quota: key}, Policy: throttle.Policy{Rates: []throttle.Rate{rate}}, By: "ann"})
		if err == nil {
			_, err = overrides.Refresh(ctx, s.limits)
		}
		must(t, err)
	}
	expect := func(when string, want config.Quota) {
		t.Helper()
		for _, app := range []string{"shop", "till"} {
			if got := o.Quotas[app][push.APNs].Spec(); !reflect.DeepEqual(got, want.Spec().Promise()) {
				t.Errorf("%s: of %s there is %+v, want %s", when, app, got, want)
			}
		}
		if got := o.Quotas["solo"][push.APNs].Spec().Rates[0].Count; got != 700 {
			t.Errorf("%s: another has %d", when, got)
		}
	}
	expect("configured", europe)
	set(throttle.Rate{Count: 300, Period: time.Minute})
	slow := aMinute(300)
	slow.Burst = 30
	expect("overridden", slow)
	for range 2 { // the second result is cached
		expect("asked again", slow)
	}
	// this rate cannot be counted exactly with so large a bucket
	europe.Burst = 300
	next := metered(t)
	next.Limits.Quotas["europe"] = config.NamedQuota{Quota: europe, Apps: []string{"shop", "till"}}
	s.quotas.Take(next)
	slow.Burst = 150
	expect("reloaded", slow)
	set(throttle.Rate{Count: 999_983, Period: 24 * time.Hour})
	expect("which is none of it", europe)
	_, err := overrides.Unset(ctx, limits.Level{Quota: key}, "ann")
	must(t, err)
	_, err = overrides.Refresh(ctx, s.limits)
	must(t, err)
	expect("unset", europe)
}
