package worker_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

// pause begins the pause, and waits until a worker has logged it.
func (r *rig) pause(h pause.Pause, log *eventually.Log) {
	r.t.Helper()
	before := strings.Count(log.String(), "paused by an operator")
	must(r.t, r.control().Pause(r.t.Context(), &h))
	wait(r.t, func() bool { return strings.Count(log.String(), "paused by an operator") > before })
}

func (r *rig) resume(h pause.Pause) {
	r.t.Helper()
	ended, err := r.control().Resume(r.t.Context(), h)
	must(r.t, err)
	if len(ended) == 0 {
		r.t.Errorf("%+v is not paused", h)
	}
}

// logs sets a readable log for the rig's workers.
func (r *rig) logs() *eventually.Log {
	log := new(eventually.Log)
	r.options.Log = slog.New(slog.NewTextHandler(log, nil))
	return log
}

// asleep waits until n jobs of the home shard are deferred or parked.
func (r *rig) asleep(n int64) {
	r.t.Helper()
	wait(r.t, func() bool {
		asleep := int64(0)
		for _, queue := range shard.Queues {
			asleep += r.client.ZCard(r.t.Context(), queueKey(r.client, queue, "retry")).Val()
		}
		return asleep == n
	})
}

// A paused notification spends no attempt and no slot, and leaves as soon as an operator resumes it.
func TestOperatorPauseCostsNoAttempt(t *testing.T) {
	const n = 20
	client := oneRedis(t)
	r := newRig(t, client, hourly)
	log := r.logs()
	r.start()
	hold := pause.Pause{App: "shop", Platform: push.APNs, By: "ada", Reason: "a new certificate"}
	r.pause(hold, log)
	r.enqueueMany("held", n, apple)
	r.enqueueMany("flows", n, google)
	r.settled(n)
	r.asleep(n)
	if got := len(r.fcm.Ledger().Entries()); got != n || r.apns.Count().Received != 0 {
		t.Errorf("%d pushes to the other platform, %d to the paused one", got, r.apns.Count().Received)
	}
	wait(t, func() bool { return r.slots() == n })
	status, err := r.inspector().Status(t.Context(), push.Ref{ID: "held-0"})
	must(t, err)
	if status.State != push.Waiting || status.Attempts != 0 || len(status.Paused) != 1 {
		t.Fatalf("status %+v", status)
	}
	if p := status.Paused[0]; p.Kind != pause.Operator || p.App != "shop" || p.Platform != push.APNs || p.By != "ada" || p.Reason != "a new certificate" {
		t.Errorf("paused by %+v", p)
	}
	if other, err := r.inspector().Status(t.Context(), push.Ref{ID: "flows-0"}); err != nil || len(other.Paused) != 0 {
		t.Errorf("status of the other %+v, %v", other, err)
	}
	hold.By = "ben"
	r.resume(hold)
	counts := r.settled(2 * n) // in time only if the resume wakes them
	if counts.Ended[push.Delivered] != 2*n || len(r.pushed("")) != 2*n || r.slots() != 2*n || r.archived() != 0 {
		t.Errorf("counts %+v with %d pushes, %d slots", counts, len(r.pushed("")), r.slots())
	}
	wait(t, func() bool { return strings.Contains(log.String(), "an operator's pause is over") })
	for _, words := range []string{"paused by an operator", "an operator's pause is over"} {
		if strings.Count(log.String(), words) != 1 || !strings.Contains(log.String(), `by=ada reason="a new certificate"`) {
			t.Errorf("the log: %s", log.String())
		}
	}
	if !strings.Contains(log.String(), "ended_by=ben") {
		t.Errorf("the log: %s", log.String())
	}
	if ttl := client.PTTL(t.Context(), "pushpace:{pauses}:operators").Val(); ttl <= 0 || ttl > time.Minute {
		t.Errorf("what has ended stays for %s", ttl)
	}
	must(t, client.Del(t.Context(), "pushpace:{pauses}:operators").Err())
	wait(t, func() bool { return len(client.Keys(t.Context(), "pushpace:{pauses}:*").Val()) == 0 })
}

// Pauses and overrides that Redis loses before their end are logged, and recorded once by all
// workers until an operator confirms the loss.
func TestLostPausesAndOverridesAreRecorded(t *testing.T) {
	client := oneRedis(t)
	r, o := tuned(t, client, throttle.Policy{}, nil)
	log := r.logs()
	r.start()
	r.start()
	r.pause(pause.Pause{Category: "news", By: "ada"}, log)
	muted := limits.Level{User: "ben", Mute: true}
	must(t, o.Set(t.Context(), limits.Override{Level: limits.Level{User: "cleo"}, Policy: every(time.Hour), By: "ada"}))
	must(t, o.Set(t.Context(), limits.Override{Level: muted, By: "ada"}))
	wait(t, func() bool { return r.options.Limits.Muted(limits.Level{App: "shop", User: "ben"}, false) })
	must(t, client.Del(t.Context(), slices.Concat(client.Keys(t.Context(), "pushpace:{limits}:*").Val(), client.Keys(t.Context(), "pushpace:{pauses}:*").Val())...).Err())
	for _, words := range []string{"an operator's pause is gone from Redis before its end", `Redis has lost overrides and mutes before their end: set them again" count=2`} {
		wait(t, func() bool { return strings.Contains(log.String(), words) })
	}
	var loss *control.Loss
	wait(t, func() (complete bool) {
		var err error
		loss, err = control.ReadLoss(t.Context(), client, "")
		must(t, err)
		return loss != nil && loss.Pauses > 0 && loss.Overrides > 0
	})
	if loss.Pauses != 1 || loss.Overrides != 2 || loss.Notifications != 0 || time.Since(loss.At).Abs() > time.Minute {
		t.Errorf("recorded is %+v", loss)
	}
	confirmed, err := r.control().ConfirmLoss(t.Context(), loss.At)
	must(t, err)
	if confirmed == nil || *confirmed != *loss {
		t.Errorf("confirmed is %+v", confirmed)
	}
}

// A notification that is due during a pause of its category gives its slot back. A notification that
// expires ends. After the resume, a worker that starts later sends the others.
func TestCategoryPauseReleasesSlots(t *testing.T) {
	client := oneRedis(t)
	r, o := tuned(t, client, throttle.Policy{}, map[string]throttle.Policy{"digest": every(time.Hour)})
	log := r.logs()
	stop := r.start()
	digest := func(id string) *push.Notification {
		n := to(id)
		n.Category = "digest"
		return n
	}
	r.enqueue(digest("first"))
	r.settled(1)
	r.enqueue(digest("second"))
	r.deferred("second")
	hold := pause.Pause{Category: "digest"}
	r.pause(hold, log)
	expires := digest("expires")
	expires.TTL = push.Duration(2 * time.Second)
	r.enqueue(expires)
	r.enqueue(to("other"))
	counts := r.settled(3)
	if counts.Ended[push.Expired] != 1 || r.record("other").State != push.Delivered {
		t.Errorf("counts %+v", counts)
	}
	// a raised limit wakes the deferred notification
	must(t, o.Set(t.Context(), limits.Override{Level: limits.Level{Category: "digest"}, Policy: every(time.Millisecond), By: "ann"}))
	digests := throttle.Request{App: "shop", User: "u1", Scopes: r.options.Limits.Scopes("shop", "u1", "digest")}
	wait(t, func() bool {
		timeline, err := r.limiter.Timeline(t.Context(), digests)
		must(t, err)
		kept := client.ZCard(t.Context(), home(client).QueueKey(push.Default.Queue(), "parked:"+store.PauseName(`["","","digest"]`))).Val()
		return kept > 0 && len(timeline.Bookings) == 0
	})
	r.asleep(1)
	stop()
	r.resume(hold) // while there is no worker
	r.start()
	r.settled(4)
	if record := r.record("second"); record.State != push.Delivered || record.Attempts != 1 {
		t.Errorf("record %+v", record)
	}
}

// Notifications are enqueued before and after a pause ends, and two workers apply its end at different
// times. All are sent.
func TestPauseEndDuringEnqueueLosesNothing(t *testing.T) {
	r := newRig(t, oneRedis(t), unlimited)
	log := r.logs()
	r.start()
	r.start()
	hold := pause.Pause{App: "shop"}
	const each = 60
	for round := range 2 {
		r.pause(hold, log)
		for i := range each {
			r.enqueue(to(fmt.Sprint("held-", round, "-", i), apple))
			if i == each/3 {
				r.resume(hold)
			}
		}
		r.settled((round + 1) * each) // in time only if the resume wakes all
	}
}

// A critical notification does not wait for the thousands of notifications of its route that return after
// a pause. Other routes do not wait either.
func TestCriticalPassesResumedNotifications(t *testing.T) {
	t.Parallel()
	const n = 3000
	r := newRig(t, redistest.Own(t), unlimited)
	log := r.logs()
	r.options.Concurrency = 64
	r.start()
	hold := pause.Pause{App: "shop", Category: "bulk"}
	r.pause(hold, log)
	r.enqueueAll("held", n, func(_ int, h *push.Notification) { h.Category = "bulk" })
	r.asleep(n)
	r.resume(hold)
	sent := func() []standin.Entry { return r.apns.Ledger().Entries() }
	wait(t, func() bool { return len(sent()) > 100 })
	critical := to("critical", apple)
	critical.Priority = push.Critical
	r.enqueue(critical)
	r.enqueue(to("elsewhere", google))
	before := len(sent())
	r.settled(n + 2)
	among := slices.IndexFunc(sent(), func(e standin.Entry) bool { return e.Notification == "critical" })
	// claimed notifications may leave before it
	if most := before + route.MaxClaimed(r.options.Concurrency); among > most {
		t.Errorf("%d leave before it, want at most %d", among, most)
	}
}
