package route

import (
	"context"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// The log reports each reason of a trouble once.
func TestTroubleIsLoggedOnce(t *testing.T) {
	t.Parallel()
	const calm = 10 * time.Second
	now := time.Unix(1_795_219_200, 0)
	closed := Status{State: Open}
	down := Status{State: Closed, Trouble: Trouble{Reason: "UNAVAILABLE", Since: now.Add(-time.Second)}}
	lost := Status{State: Trying, Trouble: Trouble{Reason: "dial_failed"}}
	quota := Status{State: Closed, Pause: "QUOTA_EXCEEDED"}
	refused := Status{State: Closed, Pause: "InvalidProviderToken"}
	var log troubleLog
	for i, step := range []struct {
		after  time.Duration
		s      Status
		length time.Duration
		want   event
	}{
		{0, closed, 0, noEvent},
		{0, down, 0, begins},
		{time.Second, down, 0, noEvent},
		{time.Second, closed, 0, noEvent}, // it flaps
		{calm - 1, closed, 0, noEvent},
		{0, down, 0, noEvent},
		{time.Second, lost, 0, goesOn},
		{time.Second, down, 0, noEvent},
		{time.Second, lost, 0, noEvent},
		{time.Second, quota, 0, goesOn},
		{time.Second, closed, 0, noEvent},
		{calm, closed, 0, ends},
		{time.Second, closed, 0, noEvent},
		{time.Second, refused, 30 * time.Second, begins},
		{time.Second, refused, 30 * time.Second, noEvent},
		{time.Second, refused, time.Minute, goesOn}, // for longer
		{time.Second, refused, OperatorRecheck, goesOn},
		{time.Second, refused, OperatorRecheck, noEvent}, // the maximum
		{time.Second, refused, 0, noEvent},
	} {
		now = now.Add(step.after)
		got := log.observe(now, &step.s, step.length, calm)
		if got != step.want {
			t.Errorf("step %d: %d, want %d", i, got, step.want)
		}
		if i == 1 && !log.since.Equal(now.Add(-time.Second)) {
			t.Errorf("it began at %s", log.since)
		}
		if got == ends {
			log = troubleLog{}
		}
	}
}

// identified is a sender with a fingerprint.
type identified string

func (identified) Send(context.Context, *push.Notification, push.Target, providers.Departure) providers.Outcome {
	return providers.Outcome{}
}
func (identified) Close() error          { return nil }
func (s identified) Fingerprint() string { return string(s) }

// A route closed by another worker's pause has no trouble of its own. A route resumed by an
// operator has none until a push fails.
func TestStatusWithoutFailureHasNoTrouble(t *testing.T) {
	t.Parallel()
	rs := routesOf(nil, "", map[push.Platform]providers.Sender{push.APNs: identified("a")})
	r, now := rs.Of("shop")[push.APNs], time.Now()
	status := func() Status { return r.status(now, r.state.view(now)) }
	r.state.follow(now, nil, closing{now.Add(time.Hour), "QUOTA_EXCEEDED", "", true})
	if s := status(); s.Pause == "" || s.State == Open || s.Trouble != (Trouble{}) {
		t.Errorf("of another worker's pause: %+v", s)
	}
	rs.learn(t, r, serverError, 1)
	if s := status(); s.Trouble.Reason != serverError.Reason || s.Trouble.Since.IsZero() || s.Trouble.Next.IsZero() {
		t.Errorf("after a failure: %+v", s)
	}
	r.state.resume()
	r.evidence.reset()
	if s := status(); s.State != Trying || s.Pause != "" || s.Trouble != (Trouble{}) {
		t.Errorf("after a resume: %+v", s)
	}
	rs.learn(t, r, serverError, 1)
	if s := status(); s.Trouble.Failures != 1 {
		t.Errorf("after another failure: %+v", s)
	}
}
