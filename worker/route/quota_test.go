package route

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
)

// While a quota is used up, pulls take only critical jobs of its routes.
func TestPullSkipsUsedUpQuota(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		spec := meter.Spec{Rates: []throttle.Rate{{Count: 6, Period: time.Minute}}, Burst: 1}.Promise()
		quota := Quota{Key: "fcm/demo", Spec: func() meter.Spec { return spec }}
		rs := New(Config{
			Senders: map[string]map[push.Platform]providers.Sender{"shop": {push.FCM: nil}}, Concurrency: 1, Meter: meter.NewRedis(redistest.InBubble(t), ""),
			Quotas: map[string]map[push.Platform]Quota{"shop": {push.FCM: quota}}, Throughputs: map[string]map[string]Quota{"shop": {"news": quota}},
		})
		defer rs.Units.Close()
		pool := rs.Throughput("shop", "news")
		parked := []string{store.ParkName([]string{store.QuotaName(pool.Key), store.PauseName("[]")})}
		paused := func(string) bool { return true }
		bounds := func(p push.Priority, parked ...string) []store.Bound {
			return rs.Reserve(p.Queue(), 64, parked, paused, time.Now()).Bounds
		}
		if got := bounds(push.Bulk); len(got) > 0 || !rs.CanUnpark(push.Bulk.Queue(), parked, paused, time.Now()) {
			t.Errorf("with an unknown quota the bounds are %+v", got)
		}
		for range 2 { // the second Take finds nothing
			rs.Units.Take(t.Context(), []meter.Need{{Pool: pool, Units: 1}}, meter.Ordinary, time.Millisecond)
			synctest.Wait()
		}
		if got := bounds(push.Bulk, parked...); len(got) != 4 || got[0].Room != 0 || got[1].Room != 0 || got[2].Room != -1 || got[3].Room != 0 || rs.CanUnpark(push.Bulk.Queue(), parked, paused, time.Now()) {
			t.Errorf("with a used up quota the bounds are %+v", got)
		}
		if got := bounds(push.Critical); len(got) > 0 {
			t.Errorf("the bounds of critical jobs are %+v", got)
		}
	})
}
