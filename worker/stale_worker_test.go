package worker_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
)

// If a second worker has delivered a worker's job, the first worker does not give the used
// admission back.
func TestOvertakenWorkerKeepsUsedAdmission(t *testing.T) {
	client := oneRedis(t)
	r := newRig(t, client, limits.New(every(time.Hour), nil))
	r.options.GiveUp(time.Second)
	unavailable := standin.Answer{Status: http.StatusServiceUnavailable, Reason: "ServiceUnavailable"}
	r.apns.RespondAlways(unavailable)
	r.fcm.RespondAlways(unavailable)
	n := to("late", apple, google)
	r.enqueue(n)
	r.crashed(n, 0)
	delivered := store.TargetOutcome{Kind: "delivered", ProviderID: "another's"}
	_, err := storetest.At(t, r.records, "late").Settle(t.Context(), "late", &store.End{State: push.Delivered, Outcomes: []store.TargetOutcome{delivered, delivered}, Attempts: 1})
	must(t, err)
	r.start()
	wait(t, func() bool {
		return client.Exists(t.Context(), queueKey(client, push.Default.Queue(), "t:late")).Val() == 0
	})
	if record := r.record("late"); record.State != push.Delivered || len(record.Outcomes) != 2 || record.Outcomes[0].ProviderID != "another's" || r.slots() != 1 {
		t.Errorf("record %+v, %d slots", record, r.slots())
	}
}
