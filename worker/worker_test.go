package worker_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

var unlimited = limits.New(throttle.Policy{}, nil)

const (
	appleToken  = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"
	googleToken = "fcm-registration-token"
	deadToken   = "deaddead00000000000000000000000000000000000000000000000000000001"
)

func to(id string, targets ...push.Target) *push.Notification {
	if len(targets) == 0 {
		targets = []push.Target{{Platform: push.APNs, Token: appleToken}}
	}
	return &push.Notification{ID: id, App: "shop", User: "u1", Targets: targets, Title: "hello"}
}

// Notifications above the limit leave at their slots, once each.
func TestLimitedNotificationsLeaveAtSlots(t *testing.T) {
	const n, gap = 8, 600 * time.Millisecond
	r := newRig(t, oneRedis(t), limits.New(throttle.Policy{MinGap: gap}, nil))
	r.options.Attempts = 1 // a deferral is no attempt
	r.enqueueMany("paced", n, apple)
	r.start() // all jobs are claimed at once, so that some return to the queue
	if counts := r.settled(n); counts.Booked != 0 {
		t.Errorf("%d are booked", counts.Booked)
	}
	r.apart("u1", throttle.General, time.Time{}, gap)
	for i := range n {
		id := fmt.Sprintf("paced-%d", i)
		if one := r.pushed(id); len(one) != 1 || r.admitted("u1", id).Sub(one[0].At) > 50*time.Millisecond {
			t.Errorf("%s is pushed %+v, and admitted at %s", id, one, r.admitted("u1", id))
		}
	}
	deferrals := r.seen.deferrals()
	r.seen.mu.Lock()
	defer r.seen.mu.Unlock()
	if deferrals == 0 || len(r.seen.ages) != n || r.archived() != 0 {
		t.Errorf("%d deferrals, %d first visits of %d notifications; asynq has archived %d", deferrals, len(r.seen.ages), n, r.archived())
	}
}

// A second notification with a known ID is not delivered, whether the first one waits or has been
// delivered. With a different priority it is a conflict.
func TestKnownIDIsDeliveredOnce(t *testing.T) {
	r := newRig(t, oneRedis(t), unlimited)
	first := to("once")
	if receipt := r.enqueue(first); receipt.Known {
		t.Error("a new ID is known")
	}
	other := to("once")
	other.Priority = push.Critical
	again := func(when string) {
		if receipt := r.enqueue(to("once")); !receipt.Known {
			t.Errorf("%s: the ID is not known", when)
		}
		if _, err := r.producer.Enqueue(t.Context(), other); !errors.Is(err, push.ErrConflict) {
			t.Errorf("%s: with another priority: %v", when, err)
		}
	}
	again("queued")
	r.start()
	r.settled(1)
	again("delivered")
	r.enqueue(to("last"))
	counts := r.settled(2)
	if got := r.pushed("once"); len(got) != 1 {
		t.Errorf("delivered %d times", len(got))
	}
	if counts.Accepted != 2 {
		t.Errorf("accepted %d, want 2", counts.Accepted)
	}
}

func TestRetrySendsOnlyToFailedTarget(t *testing.T) {
	flaky := push.Target{Platform: push.APNs, Token: appleToken}
	steady := push.Target{Platform: push.FCM, Token: googleToken}
	r := newRig(t, oneRedis(t), limits.New(throttle.Policy{Rates: []throttle.Rate{{Count: 100, Period: time.Hour}}}, nil))
	r.apns.Respond(appleToken, standin.Answer{Status: http.StatusServiceUnavailable})
	r.start()
	r.enqueue(to("flaky", flaky, steady))
	r.settled(1)
	if got := r.pushed("flaky"); len(got) != 2 {
		t.Errorf("pushed %+v: want one for each target, the delivered one not sent to again", got)
	}
	if record := r.record("flaky"); record.State != push.Delivered || record.Attempts != 2 || len(record.Outcomes) != 2 {
		t.Errorf("record %+v", record)
	}
	if got := r.slots(); got != 1 {
		t.Errorf("%d slots are spent on one notification", got)
	}
}

// A notification that no provider has accepted gives its admission back.
func TestDeadTokenGivesAdmissionBack(t *testing.T) {
	r := newRig(t, oneRedis(t), limits.New(throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: time.Hour}}}, nil))
	r.start()
	r.enqueue(to("dead", push.Target{Platform: push.APNs, Token: deadToken}))
	counts := r.settled(1)
	if counts.Ended[push.Undeliverable] != 1 || counts.DeadTokens != 1 {
		t.Errorf("counts %+v", counts)
	}
	if n := r.client.Exists(t.Context(), shardKey(r.client, "outcomes:shop")).Val(); n != 0 {
		t.Error("there is a stream of outcomes, without Options.Outcomes")
	}
	r.enqueue(to("alive"))
	r.settled(2)
	if got := r.pushed("alive"); len(got) != 1 {
		t.Errorf("the user's admission was not given back: %d pushes", len(got))
	}
}

func TestExpiredNotificationIsNotSent(t *testing.T) {
	r := newRig(t, oneRedis(t), limits.New(throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: time.Hour}}}, nil))
	past := to("past")
	past.TTL = push.Duration(time.Second)
	r.enqueue(past)
	over := time.Now().Add(time.Second)
	r.enqueue(to("taken"))
	wait(t, func() bool { return time.Now().After(over) })
	r.start()
	r.settled(2)
	soon := to("soon") // before the next slot
	soon.TTL = push.Duration(time.Minute)
	r.enqueue(soon)
	counts := r.settled(3)
	if counts.Ended[push.Expired] != 2 || len(r.pushed("past")) != 0 || len(r.pushed("soon")) != 0 {
		t.Errorf("counts %+v", counts)
	}
	if left := r.timeline("u1").Bookings; len(left) != 0 {
		t.Errorf("an expired notification holds a booking: %+v", left)
	}
}

// The provider asks for an hour, and the notification expires earlier.
func TestNotificationExpiresBeforeNextAttempt(t *testing.T) {
	r := newRig(t, oneRedis(t), unlimited)
	r.fcm.RespondAlways(standin.Answer{Status: http.StatusServiceUnavailable, RetryAfter: time.Hour})
	r.start()
	failed := to("failed", google)
	failed.TTL = push.Duration(2 * time.Second)
	r.enqueue(failed)
	if r.expect(push.Expired, "failed"); r.fcm.Count().Received > 1 {
		t.Errorf("%d pushes", r.fcm.Count().Received)
	}
}

// A malformed job becomes a dead letter with its reason. The jobs behind it are delivered.
func TestMalformedJobBecomesDeadLetter(t *testing.T) {
	valid, err := push.Encode(&push.Job{Notification: to("x"), AcceptedAt: time.Now()})
	must(t, err)
	client := oneRedis(t)
	r := newRig(t, client, unlimited)
	tasks := asynq.NewClientFromRedisClient(client)
	bad := map[string]struct {
		payload string
		reason  store.MalformedReason
	}{
		"garbage":   {"\xff\x00 not JSON", store.MalformedJSON},
		"version":   {strings.Replace(string(valid), `"v":1`, `"v":99`, 1), store.MalformedVersion},
		"oversized": {`{"v":1,"x":"` + strings.Repeat("x", push.MaxEncodedSize) + `"}`, store.MalformedSize},
		"nobody":    {strings.Replace(string(valid), `"u1"`, `""`, 1), store.MalformedNotification},
	}
	for id, b := range bad {
		_, err := tasks.Enqueue(asynq.NewTask(store.TaskType, []byte(b.payload)), asynq.TaskID(id), asynq.Queue(home(client).Queue(push.Default.Queue())), asynq.MaxRetry(store.MaxRetry))
		must(t, err)
	}
	r.start()
	r.enqueue(to("good"))
	counts := r.settled(len(bad) + 1)
	if int(counts.Malformed) != len(bad) || counts.Accepted != 1 || counts.Ended[push.Delivered] != 1 {
		t.Errorf("counts %+v", counts)
	}
	for id, b := range bad {
		if letter := r.letter(id); letter.Reason != string(b.reason) || string(letter.Job) != b.payload || letter.State != store.Malformed {
			t.Errorf("%s: letter %+v", id, letter)
		} else if strings.Contains(letter.Error, appleToken) {
			t.Errorf("%s: the error holds the token: %s", id, letter.Error)
		}
	}
	if r.archived() != 0 {
		t.Error("asynq has archived jobs")
	}
}

func TestUnsendableNotificationIsRejected(t *testing.T) {
	r := newRig(t, oneRedis(t), unlimited)
	r.start()
	unknown := to("unknown-app")
	unknown.App = "nobody"
	r.enqueue(unknown)
	noFCM := to("no-fcm", push.Target{Platform: push.FCM, Token: googleToken})
	noFCM.App = "apple"
	r.enqueue(noFCM)
	r.enqueue(to("no-browsers", push.Target{Platform: push.PlatformWebPush, Token: "https://example.com/a", Keys: &push.Keys{
		P256DH: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4", Auth: "BTBZMqHH6r4Tts7J_aSIgg",
	}}))
	half := to("half", push.Target{Platform: push.FCM, Token: googleToken}, push.Target{Platform: push.APNs, Token: appleToken})
	half.App = "apple"
	r.enqueue(half)
	r.apns.Respond(deadToken, standin.Answer{Status: http.StatusBadRequest, Reason: "PayloadEmpty"})
	r.enqueue(to("refused", push.Target{Platform: push.APNs, Token: deadToken}))
	counts := r.settled(5)
	if counts.Ended[push.Rejected] != 4 || counts.Ended[push.Delivered] != 1 {
		t.Errorf("counts %+v", counts)
	}
	for id, reason := range map[string]string{"unknown-app": "unknown_app", "no-fcm": "no_provider", "no-browsers": "no_provider", "refused": "PayloadEmpty"} {
		if letter := r.letter(id); letter.Reason != reason {
			t.Errorf("%s: letter %+v, want reason %s", id, letter, reason)
		}
	}
}
