package worker_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// crashed leaves the notification's job like a worker that crashes after the admission, before it records
// anything. times is the number of crashes.
func (r *rig) crashed(n *push.Notification, times int) {
	r.t.Helper()
	scopes := r.options.Limits.Scopes(n.App, n.User, n.Category)
	decision, err := r.limiter.Acquire(r.t.Context(), throttle.Request{App: n.App, User: n.User, ID: n.ID, Scopes: scopes, Horizon: time.Hour})
	must(r.t, err)
	if decision.Status != throttle.Granted {
		r.t.Fatalf("%s is not admitted: %+v", n.ID, decision)
	}
	key := queueKey(r.client, n.Priority.Queue(), "t:"+n.ID)
	must(r.t, r.client.HIncrBy(r.t.Context(), key, "failed", int64(times)).Err())
}

// A notification that a crashed worker may have sent ends ambiguous in any state, and its slot stays used.
func TestEndAfterCrashIsAmbiguous(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		times int
		with  func(n *push.Notification)
		then  func(t *testing.T, r *rig, n *push.Notification)
		state push.State
	}{
		"expired": {
			with: func(n *push.Notification) { n.TTL = push.Duration(time.Second) },
			then: func(t *testing.T, r *rig, n *push.Notification) {
				wait(t, func() bool { return time.Now().After(n.ExpiresAt) })
				r.start()
			},
			state: push.Expired,
		},
		"cancelled": {
			then: func(t *testing.T, r *rig, n *push.Notification) {
				must(t, r.cancel(push.Ref{ID: n.ID}))
			},
			state: push.Cancelled,
		},
		"superseded": {
			with: func(n *push.Notification) { n.CollapseKey = "score" },
			then: func(t *testing.T, r *rig, n *push.Notification) {
				for _, id := range []string{n.ID, "successor"} { // the older one has had a visit
					_, err := home(r.client).Collapse(t.Context(), store.CollapseKey{App: n.App, User: n.User, Key: n.CollapseKey}, id, time.Now(), push.Contents)
					must(t, err)
				}
				r.start()
			},
			state: push.Superseded,
		},
		"rejected": {
			then: func(_ *testing.T, r *rig, _ *push.Notification) {
				r.options.Senders = map[string]map[push.Platform]providers.Sender{"other": nil}
				r.start()
			},
			state: push.Rejected,
		},
		"exhausted": {
			times: 4,
			then:  func(_ *testing.T, r *rig, _ *push.Notification) { r.options.Attempts = 3; r.start() },
			state: push.Exhausted,
		},
		"refused later": {
			then: func(_ *testing.T, r *rig, _ *push.Notification) {
				r.apns.RespondAlways(standin.Answer{Status: http.StatusGone, Reason: "Unregistered"})
				r.start()
			},
			state: push.Undeliverable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, oneRedis(t), limits.New(every(time.Hour), nil))
			n := to("used", apple, google)
			if c.state == push.Undeliverable {
				n = to("used", apple)
			}
			if c.with != nil {
				c.with(n)
			}
			r.enqueue(n)
			if n.TTL > 0 {
				n.ExpiresAt = time.Now().Add(time.Duration(n.TTL))
			}
			r.crashed(n, max(1, c.times))
			c.then(t, r, n)
			wait(t, func() bool { return r.record(n.ID).State.Ended() })
			record := r.record(n.ID)
			if record.State != c.state || len(record.Outcomes) != len(n.Targets) {
				t.Fatalf("record %+v, want it %s", record, c.state)
			}
			for i, o := range record.Outcomes {
				if !o.Ambiguous {
					t.Errorf("target %d: %+v", i, o)
				}
			}
			if timeline := r.timeline(n.User); len(timeline.Admissions[throttle.General]) != 1 || len(timeline.Bookings) != 0 {
				t.Errorf("the timeline: %+v; want the slot used and nothing booked", timeline)
			}
			if pushes := r.pushed(""); len(pushes) > 0 {
				t.Errorf("pushed %+v", pushes)
			}
			if c.state.Dead() {
				letter := r.letter(n.ID)
				if len(letter.Outcomes) != len(n.Targets) || !letter.Outcomes[0].Ambiguous {
					t.Errorf("the letter's outcomes: %+v", letter.Outcomes)
				}
			}
		})
	}
}

// If a worker crashes after it has recorded an end and before it gives the slot back, the next visit gives
// it back.
func TestCrashAfterEndGivesSlotBack(t *testing.T) {
	r := newRig(t, oneRedis(t), limits.New(every(time.Hour), nil))
	n := to("ended", apple)
	r.enqueue(n)
	r.crashed(n, 1)
	_, err := storetest.At(t, r.records, n.ID).Settle(t.Context(), n.ID, &store.End{State: push.Expired, Outcomes: push.Unsent(n.Targets)})
	must(t, err)
	r.start()
	wait(t, func() bool { return len(r.timeline(n.User).Admissions[throttle.General]) == 0 })
}

// A requeued dead letter that may have been sent stays ambiguous.
func TestRequeuedLetterStaysAmbiguous(t *testing.T) {
	r := newRig(t, oneRedis(t), limits.New(every(time.Hour), nil))
	n := to("used", apple)
	r.enqueue(n)
	r.crashed(n, 4)
	r.options.Attempts = 3
	stop := r.start()
	r.settled(1)
	if letter := r.letter("used"); letter.Reason != string(providers.Unrecorded) {
		t.Errorf("letter %+v", letter)
	}
	stop()
	must(t, r.producer.Requeue(t.Context(), "used"))
	if record := r.record("used"); record.Attempts != 0 || len(record.Outcomes) != 1 || !record.Outcomes[0].Ambiguous {
		t.Errorf("record %+v", record)
	}
	must(t, r.cancel(push.Ref{ID: "used"}))
	if record := r.record("used"); record.State != push.Cancelled || !record.Outcomes[0].Ambiguous || r.slots() != 1 {
		t.Errorf("record %+v, %d slots", record, r.slots())
	}
}

// A push that a shutdown cuts off is ambiguous: the provider may have accepted it.
func TestPushCutByShutdownIsAmbiguous(t *testing.T) {
	r := newRig(t, oneRedis(t), limits.New(every(time.Hour), nil))
	r.options.ShutdownTimeout = 300 * time.Millisecond
	r.apns.Respond(appleToken, standin.Answer{Fault: standin.BlackHole})
	stop := r.start()
	r.enqueue(to("cut-off"))
	wait(t, func() bool { return r.apns.Count().InFlight == 1 })
	stop()
	must(t, r.cancel(push.Ref{ID: "cut-off"}))
	if record := r.record("cut-off"); record.State != push.Cancelled || len(record.Outcomes) != 1 || !record.Outcomes[0].Ambiguous {
		t.Errorf("record %+v", record)
	}
	if got := r.slots(); got != 1 {
		t.Errorf("%d slots", got)
	}
}

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
