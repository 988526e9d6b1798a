package worker_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// visited waits until that many failures of the job are counted.
func (r *rig) visited(id string, failures int) {
	r.t.Helper()
	wait(r.t, func() bool {
		failed, _ := r.client.HGet(r.t.Context(), queueKey(r.client, push.Default.Queue(), "t:"+id), "failed").Int()
		return failed >= failures
	})
}

// A process that cannot record a push does not repeat it, and records it as soon as it can.
func TestUnrecordedPushIsSentOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer  standin.Answer
		targets []push.Target
		state   push.State
		spoil   func(r *rig) (mend func())
	}{
		"a count": {standin.Answer{}, []push.Target{apple, google}, push.Delivered, func(r *rig) func() {
			must(r.t, r.client.HSet(r.t.Context(), shardKey(r.client, "counts"), "delivered", "abc").Err())
			return func() { must(r.t, r.client.HSet(r.t.Context(), shardKey(r.client, "counts"), "delivered", 0).Err()) }
		}},
		"the dead tokens": {standin.Answer{Status: http.StatusGone, Reason: "Unregistered"}, []push.Target{apple}, push.Undeliverable, func(r *rig) func() {
			must(r.t, r.client.Set(r.t.Context(), shardKey(r.client, "dead-tokens:shop"), "x", 0).Err())
			return func() { must(r.t, r.client.Del(r.t.Context(), shardKey(r.client, "dead-tokens:shop")).Err()) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, redistest.Own(t), hourly)
			r.options.GiveUp(time.Second)
			if c.answer.Status != 0 {
				r.apns.RespondAlways(c.answer)
			}
			r.enqueue(to("stubborn", c.targets...))
			mend := c.spoil(r)
			r.start()
			r.visited("stubborn", 2)
			mend()
			r.settled(1)
			record := r.record("stubborn")
			if record.State != c.state || record.Outcomes[0].Ambiguous {
				t.Errorf("record %+v", record)
			}
			if sent := r.apns.Count().Received + r.fcm.Count().Received; sent != int64(len(c.targets)) {
				t.Errorf("%d targets were sent to %d times", len(c.targets), sent)
			}
			counts, err := r.records.Counts(t.Context())
			must(t, err)
			if counts.Ended[c.state] != 1 || counts.Waiting() != 0 {
				t.Errorf("counts %+v", counts)
			}
			if reported := r.client.XLen(t.Context(), shardKey(r.client, "dead-tokens:shop")).Val(); c.state == push.Undeliverable && reported != 1 {
				t.Errorf("%d dead tokens reported", reported)
			}
		})
	}
}

// If its dead token can never be reported, a notification still ends after its attempts.
func TestUnreportedDeadTokenEndsNotification(t *testing.T) {
	t.Parallel()
	r := newRig(t, redistest.Own(t), hourly)
	r.options.GiveUp(time.Second)
	log := r.logs()
	r.options.Attempts = 1
	r.apns.RespondAlways(standin.Answer{Status: http.StatusGone, Reason: "Unregistered"})
	must(t, r.client.Set(t.Context(), shardKey(r.client, "dead-tokens:shop"), "x", 0).Err())
	r.start()
	r.enqueue(to("dead"))
	counts := r.settled(1)
	if counts.Ended[push.Undeliverable] != 1 || r.apns.Count().Received != 1 || !strings.Contains(log.String(), "dead tokens could not be reported") {
		t.Errorf("counts %+v, %d requests, log:\n%s", counts, r.apns.Count().Received, log.String())
	}
}
