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
)

func toFID(fid string) push.Target { return push.Target{Platform: push.FCM, FID: fid} }

// If an app has moved to FIDs, its dead registration tokens delay no FID. The operator reads that the app
// may have moved. Once most tokens are dead, their route closes, and no further token is reported dead.
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
		r.expect(push.Delivered, fmt.Sprint("new-", i))
	}
	var dropped int64
	wait(t, func() bool {
		counts, err := r.records.Counts(t.Context())
		must(t, err)
		dropped = counts.Ended[push.Undeliverable]
		return dropped >= 99
	})
	if reported := client.XLen(t.Context(), shardKey(client, "dead-tokens:shop")).Val(); dropped > 101 || reported != dropped {
		t.Errorf("%d tokens are dropped before the spike is seen, %d reported", dropped, reported)
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
	wait(t, func() bool { return strings.Contains(log.String(), "most of the app's tokens are dead") })
	if text := log.String(); !strings.Contains(text, reading) || strings.Contains(text, "deaddead-old") || strings.Contains(text, "fid-1") {
		t.Errorf("the log: %s", text)
	}
}

// Many dead FIDs close only the route of FIDs.
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
	r.expect(push.Delivered, "token")
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
	r.expect(push.Delivered, "fid")
}
