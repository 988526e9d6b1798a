package worker_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker"
)

// An asked meter notes what it is asked and what it grants.
type asked struct {
	meter.Meter

	mu    sync.Mutex
	first time.Time // when it was asked for the first units that it granted
	slow  int       // how many asks said so
}

func (a *asked) Take(ctx context.Context, key string, s meter.Spec, ask meter.Ask) (meter.Answer, error) {
	at := time.Now()
	answer, err := a.Meter.Take(ctx, key, s, ask)
	a.mu.Lock()
	defer a.mu.Unlock()
	if answer.Units > 0 && a.first.IsZero() {
		a.first = at
	}
	if ask.Slow {
		a.slow++
	}
	return answer, err
}

func (a *asked) slowed() int { a.mu.Lock(); defer a.mu.Unlock(); return a.slow }

// quota gives the app's way to FCM a quota that all workers share.
func (r *rig) quota(s meter.Spec) *asked {
	a := &asked{Meter: meter.NewRedis(r.client, redistest.Prefix())}
	r.options.Meter = a
	r.options.Quotas = map[string]map[push.Platform]worker.Quota{
		"shop": {push.FCM: {Key: "fcm/shop", Spec: s.Promise}},
	}
	return a
}

// android enqueues n notifications to devices of their own.
func (r *rig) android(name string, n int, p push.Priority) {
	r.t.Helper()
	var batch []*push.Notification
	for i := range n {
		id := fmt.Sprint(name, "-", i)
		batch = append(batch, &push.Notification{
			ID: id, App: "shop", User: id, Priority: p, Title: "t", Targets: []push.Target{{Platform: push.FCM, Token: id}},
		})
	}
	for _, result := range r.producer.EnqueueAll(r.t.Context(), batch) {
		must(r.t, result.Err)
	}
}

// What FCM refuses for its quota slows all workers down, as the meter is told of it.
func TestARefusalSlowsTheRamp(t *testing.T) {
	t.Parallel()
	r := newRig(t, realRedis(t), unlimited)
	a := r.quota(meter.Spec{Rates: []throttle.Rate{{Count: 60_000, Period: time.Minute}}, Ramp: time.Minute})
	r.start()
	r.android("good", 10, push.Default)
	r.settled(10)
	if n := a.slowed(); n > 0 {
		t.Errorf("slowed %d times by what was taken", n)
	}
	const bad = 20 // in a row
	for i := range bad {
		r.fcm.Respond(fmt.Sprint("bad-", i), standin.Answer{Status: http.StatusTooManyRequests, RetryAfter: 2 * time.Second})
	}
	r.android("bad", bad, push.Default)
	wait(t, func() bool { return r.fcm.Count().Received >= 10+bad })
	r.android("more", 10, push.Default)
	if counts := r.settled(20 + bad); counts.Ended[push.Delivered] != 20+bad {
		t.Errorf("%+v", counts)
	}
	if n := a.slowed(); n == 0 {
		t.Error("the meter was not told")
	}
}

// So does trouble of the provider, at which the route's breaker opens.
func TestTroubleSlowsTheRamp(t *testing.T) {
	t.Parallel()
	r := newRig(t, realRedis(t), unlimited)
	r.options.Hasten(100*time.Millisecond, 0, 0)
	a := r.quota(meter.Spec{Rates: []throttle.Rate{{Count: 60_000, Period: time.Minute}}, Ramp: time.Minute})
	r.fcm.RespondAlways(standin.Answer{Status: http.StatusServiceUnavailable})
	r.start()
	r.android("out", 20, push.Default)
	wait(t, func() bool { return a.slowed() > 0 })
	r.fcm.Recover()
}
