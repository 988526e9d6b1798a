package worker_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// status waits until the notification waits for that, and answers all about it.
func (r *rig) status(id string, cause control.Cause) *control.Status {
	r.t.Helper()
	var status *control.Status
	wait(r.t, func() bool {
		var err error
		status, err = r.control().Status(r.t.Context(), push.Ref{ID: id})
		must(r.t, err)
		if status.State.Ended() {
			r.t.Fatalf("%s has ended: %+v", id, status.Record)
		}
		return status.Waits.For == cause
	})
	return status
}

func TestStatusSaysWhatIsWaitedFor(t *testing.T) {
	r := newRig(t, oneRedis(t), limits.New(throttle.Policy{MinGap: 6 * time.Second}, map[string]throttle.Policy{"security": {Exempt: true}}))
	r.options.MaxWait = time.Minute // who waits for the gap does so in the process
	begins := time.Now().Add(time.Hour).Round(0).UTC()
	n := to("scheduled", push.Target{Platform: push.FCM, Token: googleToken})
	n.NotBefore, n.Category = begins, "news"
	r.enqueue(n)
	s := r.status("scheduled", control.ForSchedule)
	if !s.Waits.Until.Equal(begins.Truncate(time.Millisecond)) || s.App != "shop" || s.User != "u1" || s.Category != "news" || s.Job != "scheduled" {
		t.Errorf("%+v, %+v", s, s.Waits)
	}
	if o := s.Outcomes; len(o) != 1 || o[0] != (ledger.TargetOutcome{Platform: push.FCM, TokenEnd: "-token"}) {
		t.Errorf("targets %+v", o)
	}
	r.enqueue(to("first"))
	if s := r.status("first", control.ForWorker); s.Waits.Reason != "no worker runs" || s.Attempts != 0 {
		t.Errorf("%+v", s.Waits)
	}
	r.start()
	r.settled(1)
	r.enqueue(to("second")) // waits in the process
	s = r.status("second", control.ForLimit)
	if w := s.Waits; s.Job != "active" || w.Scope != throttle.General || w.Rule != "gap" || !w.Until.After(time.Now().Add(-time.Second)) {
		t.Errorf("%+v, %+v", s, w)
	}
	line, err := r.control().Timeline(t.Context(), "shop", "u1", nil)
	must(t, err)
	if b := line.Bookings; len(b) == 0 || b[0].ID != "second" || b[0].Job != "active" || b[0].Rule != "gap" || !b[0].Slot.Equal(s.Waits.Until) {
		t.Errorf("bookings %+v", b)
	}
	if sent := line.Scopes[0].Admissions; len(sent) != 1 || sent[0].ID != "first" {
		t.Errorf("sent %+v", sent)
	}
	r.settled(2)
	if record := r.record("second"); record.Deferrals != 1 || record.Attempts != 1 || record.FirstAttempt.IsZero() || record.Outcomes[0].ProviderID == "" {
		t.Errorf("%+v", record)
	}
	if record := r.record("first"); record.Deferrals != 0 || record.Attempts != 1 {
		t.Errorf("%+v", record)
	}

	r.fcm.RespondAlways(standin.Answer{Status: http.StatusServiceUnavailable})
	for _, id := range strings.Fields("a b c d e f g h i j k l") {
		n := to(id, push.Target{Platform: push.FCM, Token: googleToken})
		n.Category = "security"
		r.enqueue(n)
	}
	wait(t, func() bool {
		s := r.status("l", control.ForProvider)
		w := s.Waits
		return w.Platform == push.FCM && strings.Contains(w.Reason, "503") && !w.Since.IsZero() && !w.Until.IsZero()
	})
	must(t, r.control().Pause(t.Context(), pause.Pause{App: "shop", By: "ada", Reason: "wrong text"}))
	if s := r.status("l", control.ForPause); s.Waits.Reason != "wrong text" || s.Waits.Since.IsZero() || len(s.Paused) == 0 {
		t.Errorf("%+v", s.Waits)
	}
}
