package route

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
)

// While a quota has nothing left, what was held does not return, and what comes is
// parked, but for critical ones.
func TestAUsedUpQuotaHoldsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pools := meter.NewPools(meter.NewRedis(redistest.InBubble(t), ""))
		defer pools.Close()
		spec := meter.Spec{Rates: []throttle.Rate{{Count: 6, Period: time.Minute}}, Burst: 1}.Promise()
		r := &Route{
			App: "shop", Platform: push.FCM, Bulkhead: newBulkhead(1), breaker: &breaker{openFor: time.Second, closed: func() {}, changed: func(bool) {}},
			Quota: pools.Of("fcm/demo", func() meter.Spec { return spec }),
		}
		rs := &Routes{all: map[string]map[push.Platform]*Route{"shop": {push.FCM: r}}}
		returning := func() int {
			r.Returns()
			r.Returning(time.Now())
			time.Sleep(paceStep)
			n, _ := r.Returning(time.Now())
			return n
		}
		bulk, critical := push.Bulk.Queue(), push.Critical.Queue()
		if n, bounds := returning(), rs.Bounds(bulk, time.Now()); n == 0 || len(bounds) > 0 {
			t.Errorf("with a quota that nothing is known of %d return, and the pulls have the bounds %+v", n, bounds)
		}
		for range 2 { // the second one finds nothing
			pools.Take(t.Context(), []meter.Need{{Pool: r.Quota, Units: 1}}, meter.Ordinary, time.Millisecond)
			synctest.Wait()
		}
		if n, bounds := returning(), rs.Bounds(bulk, time.Now()); n > 0 || len(bounds) != 1 || bounds[0].Room > 0 {
			t.Errorf("with one used up %d return, and the pulls have the bounds %+v", n, bounds)
		}
		if bounds := rs.Bounds(critical, time.Now()); len(bounds) > 0 {
			t.Errorf("those of critical ones have the bounds %+v", bounds)
		}
	})
}
