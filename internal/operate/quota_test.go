package operate

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
)

func rate(count int, period time.Duration) throttle.Rate {
	return throttle.Rate{Count: count, Period: period}
}

var configured = Quotas{
	{"fcm/p", "", []string{"kiosk", "shop"}, config.Quota{Rate: rate(600_000, time.Minute), Burst: 6000}, ""},
	{"category/shop/news", "", []string{"shop"}, config.Quota{Algorithm: meter.SlidingWindow, Rates: []throttle.Rate{rate(10, time.Second), rate(100, time.Minute)}}, ""},
	{"quota/eu%20fcm", "eu fcm", []string{"shop"}, config.Quota{Rate: rate(9000, time.Second)}, ""},
	{"quota/spare", "spare", nil, config.Quota{Rate: rate(1, time.Second)}, "no app names it; write apps.shop.fcm.quota: spare"},
}

func TestFindQuota(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"category/shop/news": "category/shop/news", "eu fcm": "quota/eu%20fcm", "quota/eu%20fcm": "quota/eu%20fcm",
		"": "", "news": "", "shop": "", "spare": "", "quota/spare": "",
	} {
		q, err := configured.Find(name)
		if q.Key != want || (err == nil) != (want != "") {
			t.Errorf("%q: %+v, %v", name, q, err)
		}
	}
	for mistyped, meant := range map[string]string{"category/shop/nwes": "category/shop/news", "eufcm": "eu fcm"} {
		if _, err := configured.Find(mistyped); err == nil || !strings.HasSuffix(err.Error(), "did you mean "+meant+"?") {
			t.Error(err)
		}
	}
	if _, err := configured.Find("spare"); err.Error() != "quota spare is in the configuration, but no app names it; write apps.shop.fcm.quota: spare" {
		t.Error(err)
	}
}

// An override's rate must be as valid as one in the configuration.
func TestInvalidRateOfOverrideIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		q    Quota
		rate throttle.Rate
		want string
	}{
		{configured[0], rate(300_000, time.Minute), ""},
		{configured[0], rate(1, time.Hour), ""},
		{configured[1], rate(5, time.Second), ""},
		{Quota{Quota: config.Quota{Rate: rate(10, time.Minute), Burst: 9}}, rate(999_983, 24*time.Hour), "rate: burst: 899984 is too large to be counted exactly"},
	} {
		err := c.q.Check(c.rate)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%s at %s: %v", c.q.Key, c.rate, err)
		}
	}
}

// The status has the limit in force, its source and the free units. Reading it takes no units.
func TestReadingQuotasTakesNoUnits(t *testing.T) {
	t.Parallel()
	client, prefix, ctx := redistest.Shared(t).Client(t), redistest.Prefix(), t.Context()
	standing := redistest.Miniredis(t) // its clock stands still
	standing.SetTime(time.Unix(1_800_000_000, 0))
	counts := meter.NewRedis(redistest.Connect(t, &redis.Options{Addr: standing.Addr()}), "")
	r := QuotaReader{limits.NewOverrides(client, prefix, 0), limits.New(throttle.Policy{}, nil), counts}
	take := func(key string, s meter.Spec, n int) {
		t.Helper()
		if a, err := r.Meter.Take(ctx, key, s, meter.Ask{Least: n, Most: n}); err != nil || a.Units != n {
			t.Fatal(a, err)
		}
	}
	take("category/shop/news", configured[1].Spec().Promise(), 3)
	ends := time.Now().Add(time.Hour).Truncate(time.Millisecond).UTC()
	must(t, r.Overrides.Set(ctx, limits.Override{Level: limits.Level{Quota: "fcm/p"}, Policy: throttle.Policy{Rates: []throttle.Rate{rate(60_000, time.Minute)}}, Until: ends, By: "ann"}))
	take("fcm/p", configured[0].At(rate(60_000, time.Minute)).Spec().Promise(), 150)
	for range 2 { // reading takes no unit
		got, err := r.Read(ctx, configured)
		if err != nil || len(got) != 3 {
			t.Fatal(got, err)
		}
		for i, want := range []QuotaStatus{
			{Quota: "category/shop/news", Limit: "10/1s, 100/1m, algorithm sliding_window", Source: limits.FromConfiguration, Free: 7, AtOnce: 10},
			{Quota: "fcm/p", Limit: "60000/1m, burst 600", Source: limits.FromQuota, Until: ends, By: "ann", Free: 450, AtOnce: 600},
			{Quota: "quota/eu%20fcm", Limit: "9000/1s", Source: limits.FromConfiguration, Free: 100, AtOnce: 100},
		} {
			got[i].Apps = nil
			if g := got[i]; g.Quota != want.Quota || g.Limit != want.Limit || g.Source != want.Source || !g.Until.Equal(want.Until) || g.By != want.By || g.Free != want.Free || g.AtOnce != want.AtOnce {
				t.Errorf("got %+v, want %+v", g, want)
			}
		}
	}
}
