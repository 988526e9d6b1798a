package worker_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// What is pulled for a stuck provider goes back many at once, while the other
// provider's flows, and is delivered when the provider is there again.
func TestWhatAStuckProviderIsForGoesBackAtOnce(t *testing.T) {
	overRedis(t, func(t *testing.T, client redis.UniversalClient) {
		r := newRig(t, client, unlimited)
		var parks atomic.Int64
		own := redis.NewClient(client.(*redis.Client).Options())
		t.Cleanup(func() { own.Close() })
		own.AddHook(&failing{match: func(cmd redis.Cmder) bool {
			args := cmd.Args()
			if len(args) > 8 && args[2] == 5 && strings.HasSuffix(args[7].(string), ":retry") {
				parks.Add(1)
			}
			return false
		}})
		r.options.Queue, r.options.Records = own, push.NewRecords(own, "", 0)
		r.options.Concurrency = 2
		r.apns.RespondAlways(standin.Answer{Fault: standin.BlackHole})
		r.start()
		n := 0
		wait(t, func() bool {
			r.enqueue(to(fmt.Sprintf("stuck-%d", n)))
			n++
			return parks.Load() > 0
		})
		r.enqueue(to("flows", push.Target{Platform: push.FCM, Token: googleToken}))
		wait(t, func() bool { return len(r.fcm.Ledger().Entries()) == 1 })
		r.apns.Recover()
		if counts := r.settled(n + 1); counts.Ended[push.Delivered] != int64(n+1) {
			t.Errorf("%+v of %d", counts, n+1)
		}
	})
}
