package worker_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

// standing waits until exactly one pause is listed and has the kind, and returns it.
func (r *rig) standing(kind pause.Kind) pause.Pause {
	r.t.Helper()
	var found pause.Pause
	wait(r.t, func() bool {
		list, err := r.inspector().Pauses(r.t.Context())
		must(r.t, err)
		if len(list) == 1 {
			found = list[0]
		}
		return found.Kind == kind && !found.At.IsZero() // At comes with the snapshots
	})
	return found
}

// wrongly returns a sender with a key that APNs refuses, and a function that replaces the key.
func (r *rig) wrongly() (s *apns.Sender, mend func()) {
	r.t.Helper()
	cfg, err := r.apns.WriteCredentials(r.t.TempDir())
	must(r.t, err)
	right, err := os.ReadFile(cfg.KeyFile)
	must(r.t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(r.t, err)
	text, err := x509.MarshalPKCS8PrivateKey(key)
	must(r.t, err)
	must(r.t, os.WriteFile(cfg.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}), 0o600))
	s, err = apns.New(cfg)
	must(r.t, err)
	r.t.Cleanup(func() { s.Close() })
	return s, func() {
		must(r.t, os.WriteFile(cfg.KeyFile, right, 0o600))
		must(r.t, s.Reload())
	}
}

// with sets the APNs sender of the shop for workers that start later.
func (r *rig) with(s providers.Sender) {
	senders := maps.Clone(r.options.Senders)
	senders["shop"] = maps.Clone(senders["shop"])
	senders["shop"][push.APNs] = s
	r.options.Senders = senders
}

// A refused key closes the route only in the worker that has the key.
func TestWrongKeyStopsOnlyItsWorker(t *testing.T) {
	const n = 100
	r := newRig(t, oneRedis(t), unlimited)
	healthy := r.run()
	sender, _ := r.wrongly()
	r.with(sender)
	wrong := r.run()
	first := 0
	wait(t, func() bool { // until the worker with the wrong key gets a notification
		r.enqueue(to(fmt.Sprint("first-", first), devices(first, apple)...))
		first++
		return statusOf(t, wrong, "shop", push.APNs).Pause == "InvalidProviderToken"
	})
	r.enqueueMany("then", n, apple)
	r.settled(first + n)
	if got := statusOf(t, healthy, "shop", push.APNs); got.Pause != "" || got.State != route.Open {
		t.Errorf("the healthy one: %+v", got)
	}
	if s := r.standing(pause.Provider); s.Workers != 1 || !strings.Contains(s.Error, "403 InvalidProviderToken") || s.At.IsZero() {
		t.Errorf("listed: %+v", s)
	}
	if len(r.pushed("")) != first+n {
		t.Errorf("%d pushes of %d", len(r.pushed("")), first+n)
	}
}

// A new key is tried at once, even if the pause for the old one has an hour left.
func TestNewKeyEndsPause(t *testing.T) {
	r := newRig(t, oneRedis(t), unlimited)
	r.hasten(time.Hour, time.Hour)
	var mend [2]func()
	for i := range mend {
		var sender providers.Sender
		sender, mend[i] = r.wrongly()
		r.with(sender)
		r.run()
	}
	r.enqueueMany("kept", 20, apple)
	wait(t, func() bool { return len(r.seen.closings()) == 2 })
	mend[0]()
	mend[1]()
	r.enqueueMany("more", 20, apple)
	if counts := r.settled(40); counts.Ended[push.Delivered] != 40 {
		t.Errorf("counts %+v", counts)
	}
}

// An operator's resume ends a pause that a provider's answers caused.
func TestResumeEndsProviderPause(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer standin.Answer
		kind   pause.Kind
		reason string
	}{
		"refused": {standin.Answer{Status: http.StatusForbidden, Reason: "InvalidProviderToken"}, pause.Provider, "InvalidProviderToken"},
		"down":    {standin.Answer{Status: http.StatusServiceUnavailable}, pause.Trouble, "ServiceUnavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, oneRedis(t), unlimited)
			r.hasten(time.Hour, time.Hour)
			log := r.logs()
			r.start()
			r.start()
			r.apns.RespondAlways(c.answer)
			r.enqueueMany("kept", 30, apple)
			s := r.standing(c.kind)
			if s.App != "shop" || s.Platform != push.APNs || s.Reason != c.reason || s.Error == "" || s.At.IsZero() || time.Until(s.Until) < 3*time.Minute {
				t.Errorf("listed: %+v", s)
			}
			r.apns.Recover()
			hold := pause.Pause{App: "shop", Platform: push.FCM, By: "ada"}
			if ended, err := r.control().Resume(t.Context(), hold); err != nil || len(ended) != 0 {
				t.Errorf("of the other platform: %+v, %v", ended, err)
			}
			hold.Platform = push.APNs
			ended, err := r.control().Resume(t.Context(), hold)
			if err != nil || len(ended) != 1 || ended[0].Reason != c.reason {
				t.Errorf("ended: %+v, %v", ended, err)
			}
			const line = `an operator resumed the app's provider" app=shop platform=apns by=ada`
			wait(t, func() bool { return strings.Count(log.String(), line) == 2 })
			wait(t, func() bool { // though nothing is sent
				list, err := r.inspector().Pauses(t.Context())
				must(t, err)
				return len(list) == 0
			})
			r.enqueue(to("new", apple)) // the probe, which leaves at once
			wait(t, func() bool { return r.record("new").State == push.Delivered })
			if list, err := r.inspector().Pauses(t.Context()); err != nil || len(list) > 0 {
				t.Errorf("listed: %+v, %v", list, err)
			}
		})
	}
}
