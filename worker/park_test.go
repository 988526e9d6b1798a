package worker_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// What is pulled for a stuck provider goes back many at once, while the other
// provider's flows, and is delivered when the provider is there again.
func TestWhatAStuckProviderIsForGoesBackAtOnce(t *testing.T) {
	overRedis(t, func(t *testing.T, client redis.UniversalClient) {
		r := newRig(t, client, unlimited)
		inspector := asynq.NewInspectorFromRedisClient(client)
		parked := func() bool {
			tasks, err := inspector.ListRetryTasks(home(client).Queue(push.Default.Queue()), asynq.PageSize(1000))
			return err == nil && slices.ContainsFunc(tasks, func(task *asynq.TaskInfo) bool { return task.LastErr == "" }) // asynq notes why else
		}
		r.options.Concurrency = 2
		r.with(r.leaving(5 * time.Second)) // then what is in flight when APNs is there again ends
		r.apns.RespondAlways(standin.Answer{Fault: standin.BlackHole})
		r.start()
		n := 0
		wait(t, func() bool {
			r.enqueue(to(fmt.Sprintf("stuck-%d", n)))
			n++
			return n%100 == 0 && parked()
		})
		r.enqueue(to("flows", push.Target{Platform: push.FCM, Token: googleToken}))
		wait(t, func() bool { return len(r.fcm.Ledger().Entries()) == 1 })
		r.apns.Recover()
		if counts := r.settled(n + 1); counts.Ended[push.Delivered] != int64(n+1) {
			t.Errorf("%+v of %d", counts, n+1)
		}
	})
}
