package route

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
)

// While a quota has nothing left, what was held does not return, and what comes stays on
// the queue, but for critical ones.
func TestAUsedUpQuotaHoldsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pools := meter.NewPools(meter.NewMemory(nil))
		defer pools.Close()
		spec := meter.Spec{Rates: []throttle.Rate{{Count: 6, Period: time.Minute}}, Burst: 1}.Promise()
		r := &Route{
			App: "shop", Platform: push.FCM, Bulkhead: newBulkhead(1), breaker: newBreaker(time.Second, func(bool) {}),
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
		if n, stalled := returning(), rs.Stalled(bulk, time.Now()); n == 0 || len(stalled) > 0 {
			t.Errorf("with a quota that nothing is known of %d return, %+v stays", n, stalled)
		}
		for range 2 { // the second one finds nothing
			pools.Take(t.Context(), []meter.Need{{Pool: r.Quota, Units: 1}}, meter.Ordinary, time.Millisecond)
			synctest.Wait()
		}
		if n, stalled := returning(), rs.Stalled(bulk, time.Now()); n > 0 || len(stalled) != 1 || time.Until(stalled[0].Until) < 5*time.Second {
			t.Errorf("with one used up %d return, %+v stays", n, stalled)
		}
		if stalled := rs.Stalled(critical, time.Now()); len(stalled) > 0 {
			t.Errorf("of critical ones %+v stays", stalled)
		}
	})
}
