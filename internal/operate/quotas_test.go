package operate

import (
	"reflect"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/quotas"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/route"
)

// What is in force of a quota is told with who uses it, of the bearer's apps, and what the
// workers know.
func TestRecentQuotas(t *testing.T) {
	t.Parallel()
	configured := quotas.Quotas{
		{Key: "fcm/p", Apps: []string{"kiosk", "shop"}, Quota: config.Quota{Rate: throttle.Rate{Count: 10, Period: time.Second}}},
		{Key: "quota/eu", Name: "eu", Apps: []string{"kiosk"}, Quota: config.Quota{Rate: throttle.Rate{Count: 5, Period: time.Second}}},
	}
	inForce := []quotas.Status{
		{Quota: "fcm/p", Apps: []string{"kiosk", "shop"}, Limit: "{rate: 10/1s}", Source: limits.FromQuota, By: "ada"},
		{Quota: "quota/eu", Apps: []string{"kiosk"}, Limit: "{rate: 5/1s}", Source: limits.FromConfiguration},
		{Quota: "gone", Limit: "{rate: 5/1s}"},
	}
	known := []route.QuotaStatus{{Key: "fcm/p", Used: .375, Waiting: 4}}
	fcm, eu := RecentQuota{inForce[0], "", &known[0]}, RecentQuota{inForce[1], "eu", nil}
	if got := of().recentOf(configured, inForce, known); !reflect.DeepEqual(got, []RecentQuota{fcm, eu}) {
		t.Errorf("%+v", got)
	}
	fcm.Apps = []string{"shop"}
	if got := of("shop").recentOf(configured, inForce, known); !reflect.DeepEqual(got, []RecentQuota{fcm}) {
		t.Errorf("%+v", got)
	}
}
