package worker_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
	"github.com/pushpace/pushpace/worker/webhook"
)

func toFID(fid string) push.Target { return push.Target{Platform: push.FCM, FID: fid} }

// If an app has moved to FIDs, its dead registration tokens delay no FID. The operator reads that the app
// may have moved.
func TestSpikeOfDeadTokensSparesFIDs(t *testing.T) {
	const tokens, fids = 140, 20
	client := oneRedis(t)
	r := newRig(t, client, unlimited)
	log := r.logs()
	r.options.Concurrency = 2
	r.hasten(100*time.Millisecond, time.Minute)
	r.start()
	r.enqueueMany("old", tokens, push.Target{Platform: push.FCM, Token: "deaddead-old-release:APA91b0000"})
	wait(t, func() bool { return len(r.seen.closings()) > 0 })
	if reason := r.seen.closings()[0]; reason != providers.DeadTokenSpike {
		t.Errorf("the tokens are paused for %s", reason)
	}
	for i := range fids {
		r.enqueue(to(fmt.Sprint("new-", i), toFID(fmt.Sprintf("fid-%d", i))))
	}
	for i := range fids {
		if state := r.ends(fmt.Sprint("new-", i)); state != push.Delivered {
			t.Fatalf("a FID is %s", state)
		}
	}
	var waits string
	for i := range tokens {
		if id := fmt.Sprint("old-", i); !r.record(id).State.Ended() {
			waits = id
		}
	}
	if w := r.status(waits, inspect.ForProvider).Waits; w.Platform != push.FCM {
		t.Errorf("a token waits for %+v", w)
	}
	const reading = "most registration tokens are dead, so no token is reported dead: the app may have moved to FIDs"
	wait(t, func() bool {
		for _, snapshot := range r.snapshots() {
			for _, s := range snapshot.Routes {
				switch {
				case s.Platform == push.FCMFID && s.State != route.Open:
					t.Errorf("the FIDs' route: %+v", s)
				case s.Platform == push.FCM && s.State != route.Open:
					return strings.Contains(s.Trouble.Error, reading)
				}
			}
		}
		return false
	})
	wait(t, func() bool { return strings.Contains(log.text(), "most of the app's tokens are dead") })
	if text := log.text(); !strings.Contains(text, reading) || strings.Contains(text, "deaddead-old") || strings.Contains(text, "fid-1") {
		t.Errorf("the log: %s", text)
	}
}

// Many dead FIDs pause only the FIDs.
func TestSpikeOfDeadFIDsSparesTokens(t *testing.T) {
	r := newRig(t, oneRedis(t), unlimited)
	r.options.Concurrency = 2
	r.hasten(100*time.Millisecond, time.Minute)
	r.start()
	for i := range 140 {
		r.enqueue(to(fmt.Sprint("dead-", i), toFID(fmt.Sprintf("deaddead-%d", i))))
	}
	wait(t, func() bool { return len(r.seen.closings()) > 0 })
	r.enqueue(to("token", google))
	if state := r.ends("token"); state != push.Delivered {
		t.Errorf("a token is %s", state)
	}
}

// A delay that FCM asks for closes both of its routes in all workers, as they share a project and its
// quota. A resume of both opens them.
func TestFCMDelayClosesTokensAndFIDs(t *testing.T) {
	r := newRig(t, oneRedis(t), unlimited)
	r.options.Concurrency = 2
	r.fcm.RespondAlways(standin.Answer{Status: http.StatusTooManyRequests, RetryAfter: time.Hour})
	workers := []*worker.Worker{r.run(), r.run()}
	r.enqueueMany("token", 25, google)
	for _, w := range workers {
		wait(t, func() bool {
			closed := 0
			for _, s := range w.Routes() {
				if s.App == "shop" && push.PlatformOf(s.Platform) == push.FCM && s.State == route.Closed && time.Until(s.Until) > 30*time.Minute {
					closed++
				}
			}
			return closed == 2
		})
	}
	r.fcm.Recover()
	r.enqueue(to("fid", toFID("fid-1")))
	if w := r.status("fid", inspect.ForProvider).Waits; w.Platform != push.FCMFID {
		t.Errorf("a FID waits for %+v", w)
	}
	r.resume(pause.Pause{App: "shop", Platform: push.FCM})
	if state := r.ends("fid"); state != push.Delivered {
		t.Errorf("a FID is %s", state)
	}
}

// A report of a dead FID names it as FID. Logs and records contain only its last characters.
func TestDeadFIDIsReported(t *testing.T) {
	const fid = "deaddead1tRk2bX0mYw9sL"
	r := newRig(t, oneRedis(t), unlimited)
	log := r.logs()
	hook := newReceiver(t)
	r.options.Webhooks = map[string]webhook.Hook{"shop": {URL: hook.URL, Keys: [][]byte{webhookKey}, Timeout: time.Second}}
	r.start()
	r.enqueue(to("dead", toFID(fid)))
	if state := r.ends("dead"); state != push.Undeliverable {
		t.Errorf("it is %s", state)
	}
	wait(t, func() bool { return len(hook.tokens()) > 0 })
	if d := hook.tokens()[0]; d.FID != fid || d.Token != "" || d.Platform != push.FCM || d.Reason != "UNREGISTERED" {
		t.Errorf("the webhook has got %+v", d)
	}
	entries := r.client.XRange(t.Context(), shardKey(r.client, "dead-tokens:shop"), "-", "+").Val()
	if len(entries) != 1 || entries[0].Values["fid"] != fid || entries[0].Values["token"] != nil {
		t.Errorf("the stream has %+v", entries)
	}
	if o := r.record("dead").Outcomes; len(o) != 1 || o[0].TokenEnd != fid[len(fid)-6:] || o[0].Platform != push.FCM {
		t.Errorf("outcomes %+v", o)
	}
	if strings.Contains(log.text(), fid) {
		t.Errorf("the log shows the FID: %s", log.text())
	}
}

// A device's limit counts a FID and a token separately, even if their texts are equal.
func TestDeviceLimitCountsFIDAndTokenSeparately(t *testing.T) {
	r := newRig(t, oneRedis(t), unlimited)
	r.guardDevices(realMeter(t), time.Hour) // two to a device
	r.start()
	for i := range 2 {
		r.enqueue(to(fmt.Sprint("token-", i), google))
		r.enqueue(to(fmt.Sprint("fid-", i), toFID(googleToken)))
	}
	for i := range 2 {
		for _, kind := range []string{"token-", "fid-"} {
			if state := r.ends(fmt.Sprint(kind, i)); state != push.Delivered {
				t.Errorf("%s%d is %s", kind, i, state)
			}
		}
	}
	r.enqueue(to("third", toFID(googleToken)))
	wait(t, func() bool { return r.overDevice("third", "over the device's limit 2/1h") })
}

// A newer notification with the same collapse key goes to its own FID, and a digest to the FID of its
// carrier.
func TestCollapseAndDigestKeepFIDs(t *testing.T) {
	r, o := tuned(t, oneRedis(t), every(time.Hour), nil)
	r.start()
	first := to("first", toFID("fid-first"))
	r.enqueue(first)
	r.ends("first")
	older, newer := to("older", toFID("fid-older")), to("newer", toFID("fid-newer"))
	older.CollapseKey, newer.CollapseKey = "k", "k"
	r.enqueue(older)
	r.deferred("older")
	r.enqueue(newer)
	if state := r.ends("older"); state != push.Superseded {
		t.Errorf("the older one is %s", state)
	}
	carrier, joins := like("carrier"), like("joins")
	carrier.Targets, joins.Targets = []push.Target{toFID("fid-carrier")}, []push.Target{toFID("fid-joins")}
	r.enqueue(carrier)
	r.deferred("carrier")
	r.joins(joins, "carrier")
	r.let(o)
	r.settled(5)
	for id, fid := range map[string]string{"first": "fid-first", "newer": "fid-newer", "carrier": "fid-carrier"} {
		if pushed := r.pushed(id); len(pushed) != 1 || pushed[0].FID != fid {
			t.Errorf("%s is sent as %+v", id, pushed)
		}
	}
}
