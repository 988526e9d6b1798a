package worker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker"
)

// ownRig returns a rig whose worker makes its own parts.
func ownRig(t *testing.T, client redis.UniversalClient) *rig {
	r := newRig(t, client, limits.New(throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: time.Hour}}}, nil))
	r.options.Queue, r.options.Limiter = client, nil
	return r
}

// A worker with only Redis, limits and senders makes a limiter, a meter and overrides, and applies
// them.
func TestWorkerMakesOmittedParts(t *testing.T) {
	client := oneRedis(t)
	r := ownRig(t, client)
	r.options.Quotas = map[string]map[push.Platform]worker.Quota{"shop": {push.FCM: quota("fcm/demo", throttle.Rate{Count: 1000, Period: time.Minute}, 10)}}
	w := r.run()
	for _, id := range []string{"first", "second"} {
		n := to(id, google)
		_, err := w.Producer().Enqueue(t.Context(), n)
		must(t, err)
	}
	r.asleep(1)
	if all := w.Quotas(); len(all) != 1 || all[0].Key != "fcm/demo" {
		t.Errorf("the quotas are %+v", all)
	}
	overrides := limits.NewOverrides(client, "", 0)
	must(t, overrides.Set(t.Context(), limits.Override{Level: limits.Level{App: "shop"}, Policy: throttle.Policy{MinGap: time.Millisecond}, By: "test"}))
	r.settled(2)
}

// New refuses options from which it cannot make its parts, and leaks nothing.
func TestNewRejectsInvalidOptions(t *testing.T) {
	for want, change := range map[string]func(*worker.Options){
		"Senders are required": func(o *worker.Options) { o.Senders = nil },
		`platform "huawei": must be apns, fcm or webpush`: func(o *worker.Options) {
			o.Senders = map[string]map[push.Platform]providers.Sender{"shop": {"huawei": o.Senders["shop"][push.FCM]}}
		},
		`platform "fcm": is nil`: func(o *worker.Options) {
			o.Senders = map[string]map[push.Platform]providers.Sender{"shop": {push.FCM: nil}}
		},
		"need a Limiter":         func(o *worker.Options) { o.Overrides = limits.NewOverrides(o.Queue, "", 0) },
		"Limits and Senders are": func(o *worker.Options) { o.Limits = nil },
		"Limits: rates: 1/48h has": func(o *worker.Options) {
			o.Limits = limits.New(throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: 48 * time.Hour}}}, nil)
		},
		`category "news": `: func(o *worker.Options) {
			o.Limits = limits.New(throttle.Policy{}, map[string]throttle.Policy{"news": {MinGap: 48 * time.Hour}})
		},
		"Queue: throttle: set ContextTimeoutEnabled": func(o *worker.Options) {
			client := redis.NewClient(&redis.Options{Addr: redistest.Miniredis(t).Addr()})
			t.Cleanup(func() { _ = client.Close() })
			o.Queue = client
		},
	} {
		r := ownRig(t, redistest.Connect(t, &redis.Options{Addr: redistest.Miniredis(t).Addr()}))
		change(&r.options)
		if _, err := worker.New(r.options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
