package worker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// A provider that accepts requests and never answers delays only its own notifications.
func TestStuckProviderDelaysNoOtherProvider(t *testing.T) {
	r := newRig(t, oneRedis(t), unlimited)
	r.options.Concurrency = 4
	r.apns.RespondAlways(standin.Answer{Fault: standin.BlackHole})
	r.start()
	const each = 40
	for i := range 4 { // they take all places of both providers
		r.enqueue(to(fmt.Sprintf("both-%d", i), push.Target{Platform: push.APNs, Token: appleToken}, google))
	}
	wait(t, func() bool { return r.apns.Count().InFlight == 4 && len(r.fcm.Ledger().Entries()) == 4 })
	for i := range each {
		r.enqueue(to(fmt.Sprintf("stuck-%d", i)))
	}
	for i := range each {
		r.enqueue(to(fmt.Sprintf("flows-%d", i), google))
	}
	wait(t, func() bool { return len(r.fcm.Ledger().Entries()) == 4+each })
	if now := r.apns.Count(); now.Peak > 4 || now.Received > 4 {
		t.Errorf("%+v: four pushes may be in flight to the stuck provider, and none has ended", now)
	}
	r.apns.Recover()
}

// A notification holds no place at a provider of which it has only devices that are over their limit.
func TestSkippedDeviceHoldsNoPlace(t *testing.T) {
	r := newRig(t, oneRedis(t), unlimited)
	r.options.Concurrency = 4
	r.guardDevices(realMeter(t), time.Hour)
	r.start()
	r.enqueue(to("first", google))
	r.enqueue(to("second", google))
	r.settled(2)
	r.apns.RespondAlways(standin.Answer{Fault: standin.BlackHole})
	for i := range 4 {
		r.enqueue(to(fmt.Sprint("both-", i), append(devices(i, apple), google)...))
	}
	wait(t, func() bool { return r.apns.Count().InFlight == 4 })
	for i := range 10 {
		r.enqueue(to(fmt.Sprint("flows-", i), devices(10+i, google)...))
	}
	wait(t, func() bool { return len(r.fcm.Ledger().Entries()) >= 12 })
	if received := r.apns.Count().Received; received > 4 {
		t.Errorf("%d pushes: FCM has waited for APNs", received)
	}
	r.apns.Recover()
}

// An idle worker sends about 20 commands a second, five of them to the intake. On a Cluster it polls the
// intake's three queues one by one, which takes ten more commands. The bound allows for the short time of
// counting.
func TestIdleWorkerSendsFewCommands(t *testing.T) {
	client := oneRedis(t)
	sent := redistest.Count(client, redistest.Any)
	r := newRig(t, client, unlimited)
	r.divide(1)
	r.start()
	r.enqueue(to("first")) // loads scripts and connections
	r.settled(1)
	start, before := time.Now(), sent.Load()
	most := 26.0
	if _, cluster := pipeline.OfCluster(client); cluster {
		most = 36
	}
	timer := time.NewTimer(2 * time.Second)
	defer timer.Stop()
	<-timer.C
	if rate := float64(sent.Load()-before) / time.Since(start).Seconds(); rate > most {
		t.Errorf("%.0f commands a second", rate)
	} else {
		t.Logf("%.0f commands a second", rate)
	}
}
