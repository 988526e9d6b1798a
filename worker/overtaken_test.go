package worker_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
)

var wasDelivered = store.TargetOutcome{Kind: "delivered", ProviderID: "another's"}

// A worker whose job another one has had since changes nothing of what that has
// recorded, and gives nothing back that it has used.
func TestAWorkerThatIsOvertaken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ttl  time.Duration
		apns int64
	}{
		"expires after the end":    {ttl: time.Second},
		"is refused after the end": {apns: 1},
	} {
		t.Run(name, func(t *testing.T) {
			client := oneRedis(t)
			r := newRig(t, client, limits.New(every(time.Hour), nil))
			r.options.GiveUp(time.Second)
			unavailable := standin.Answer{Status: http.StatusServiceUnavailable, Reason: "ServiceUnavailable"}
			r.apns.RespondAlways(unavailable)
			r.fcm.RespondAlways(unavailable)
			n := to("late", apple, google)
			n.TTL = push.Duration(c.ttl)
			r.enqueue(n)
			expires := time.Now().Add(c.ttl)
			r.crashed(n, 0)
			_, err := storetest.At(t, r.records, "late").Settle(t.Context(), "late", &store.End{State: push.Delivered, Outcomes: []store.TargetOutcome{wasDelivered, wasDelivered}, Attempts: 1})
			must(t, err)
			wait(t, func() bool { return time.Now().After(expires) })
			before := r.record("late")
			r.start()
			key := queueKey(client, push.Default.Queue(), "t:late")
			wait(t, func() bool { return client.Exists(t.Context(), key).Val() == 0 })
			record := r.record("late")
			if record.State != push.Delivered || len(record.Outcomes) != 2 || record.Outcomes[0].ProviderID != wasDelivered.ProviderID ||
				record.Attempts != before.Attempts || record.Error != before.Error {
				t.Errorf("record %+v\nbefore %+v", record, before)
			}
			if got := r.slots(); got != 1 {
				t.Errorf("%d slots", got)
			}
			if got := r.apns.Count().Received; got != c.apns {
				t.Errorf("%d requests, want %d", got, c.apns)
			}
		})
	}
}

func hasArg(cmd redis.Cmder, want string) bool {
	for _, arg := range cmd.Args() {
		if text, ok := arg.(string); ok && strings.EqualFold(text, want) {
			return true
		}
	}
	return false
}
