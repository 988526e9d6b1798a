package cli

import (
	"slices"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/throttle"
)

// check tells what all workers together may do, as it is written.
func TestCheckTellsQuotas(t *testing.T) {
	t.Parallel()
	aMinute := func(n int) config.Quota { return config.Quota{Rate: throttle.Rate{Count: n, Period: time.Minute}} }
	named, own, rate := config.Shared{Quota: &config.AppQuota{Name: "europe"}}, config.Shared{Quota: &config.AppQuota{Quota: aMinute(700)}}, aMinute(100)
	cfg := &config.Config{
		Limits: config.Limits{
			Quotas:     map[string]config.NamedQuota{"europe": {Quota: aMinute(600), Apps: []string{"shop", "till"}}},
			Categories: map[string]config.Category{"news": {Throughput: &config.Quota{Rate: throttle.Rate{Count: 50, Period: time.Second}}}, "chat": {}},
		},
		Apps: map[string]config.App{
			"shop": {APNs: &config.APNs{Shared: named}},
			"till": {APNs: &config.APNs{Shared: named}},
			"web":  {FCM: &config.FCM{Shared: own}, APNs: &config.APNs{Shared: config.Shared{Concurrency: 30}}},
		},
	}
	cfg.HTTP.Tokens = []config.Token{{Name: "shop", Role: config.Producer, Rate: &rate}, {Name: "ada", Role: config.Operator}}
	e := effectiveOf(cfg)
	for _, c := range []struct{ got, want string }{
		{e.Limits.Quotas["europe"].Quota, "{rate: 600/1m}"},
		{e.Limits.Categories["news"].Throughput, "{rate: 50/1s}"},
		{e.Limits.Categories["chat"].Throughput, ""},
		{e.Apps["shop"].APNs.Quota, "europe"},
		{e.Apps["web"].FCM.Quota, "{rate: 700/1m}"},
		{e.HTTP.TokenRates["shop"], "{rate: 100/1m}"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	if apps := e.Limits.Quotas["europe"].Apps; !slices.Equal(apps, []string{"shop", "till"}) || e.Apps["web"].APNs.Concurrency != 30 || len(e.HTTP.TokenRates) != 1 {
		t.Errorf("%+v", e)
	}
}
