package route

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
)

// The log tells of a trouble once, and again only what is new.
func TestTale(t *testing.T) {
	t.Parallel()
	const calm = 10 * time.Second
	now := time.Unix(1_795_219_200, 0)
	closed := Status{Breaker: BreakerClosed}
	down := Status{Breaker: BreakerOpen, Trouble: Trouble{Reason: "UNAVAILABLE", Since: now.Add(-time.Second)}}
	lost := Status{Breaker: BreakerHalfOpen, Trouble: Trouble{Reason: "dial_failed"}}
	quota := Status{Breaker: BreakerOpen, Pause: "QUOTA_EXCEEDED"}
	refused := Status{Breaker: BreakerOpen, Pause: "InvalidProviderToken"}
	var told tale
	for i, step := range []struct {
		after time.Duration
		s     Status
		level int
		want  news
	}{
		{0, closed, 0, nothing},
		{0, down, 0, begins},
		{time.Second, down, 0, nothing},
		{time.Second, closed, 0, nothing}, // it flaps
		{calm - 1, closed, 0, nothing},
		{0, down, 0, nothing},
		{time.Second, lost, 0, goesOn},
		{time.Second, down, 0, nothing},
		{time.Second, lost, 0, nothing},
		{time.Second, quota, 0, goesOn},
		{time.Second, closed, 0, nothing},
		{calm, closed, 0, ends},
		{time.Second, closed, 0, nothing},
		{time.Second, refused, 1, begins},
		{time.Second, refused, 1, nothing},
		{time.Second, refused, 2, goesOn}, // for longer
		{time.Second, refused, 5, goesOn},
		{time.Second, refused, 6, nothing}, // for as long as it gets
		{time.Second, refused, 0, nothing},
	} {
		now = now.Add(step.after)
		got := told.hear(now, &step.s, step.level, calm)
		if got != step.want {
			t.Errorf("step %d: %d, want %d", i, got, step.want)
		}
		if i == 1 && !told.since.Equal(now.Add(-time.Second)) {
			t.Errorf("it began at %s", told.since)
		}
		if got == ends {
			told = tale{}
		}
	}
}

// identified is a sender with a fingerprint.
type identified string

func (identified) Send(context.Context, *push.Notification, push.Target) providers.Outcome {
	return providers.Outcome{}
}
func (identified) Close() error          { return nil }
func (s identified) Fingerprint() string { return string(s) }

// What one worker finds wrong with its credentials concerns those who have the
// same, and is believed when it is borne out.
func TestWhoIsBelieved(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	refused := providers.Outcome{
		Kind: providers.Misconfigured, Reason: "InvalidProviderToken", Concerns: providers.ConcernsCredential, Err: errors.New("APNs answers 403"),
	}
	quota := providers.Outcome{Kind: providers.Retry, Reason: "QUOTA_EXCEEDED", Concerns: providers.ConcernsApp, RetryAfter: time.Minute}
	for name, c := range map[string]struct {
		o           providers.Outcome
		proven      bool
		clock       time.Duration
		others      string
		second      string // the host of a second worker that says the same
		want, alone bool
	}{
		"its credentials have worked": {o: refused, proven: true, others: "a", want: true},
		"a second one says the same":  {o: refused, others: "a", second: "two", want: true},
		"it says so once more":        {o: refused, others: "a", second: "one", alone: true},
		"it is alone":                 {o: refused, others: "a", alone: true},
		"its clock is off":            {o: refused, proven: true, clock: -time.Hour, others: "a", alone: true},
		"a quota, by a wrong clock":   {o: quota, clock: time.Hour, others: "a", alone: true},
		"others have others":          {o: refused, proven: true, others: "b"},
		"a quota is everybody's":      {o: quota, others: "b", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			prefix := strings.ReplaceAll(name, " ", "-")
			worker := func(host string, credentials identified, clock time.Duration) (*Routes, *Route) {
				rs := routesOf(client, prefix, host, map[push.Platform]providers.Sender{push.APNs: credentials}, clock)
				return rs, rs.Of("shop")[push.APNs]
			}
			one, its := worker("one", "a", c.clock)
			two, also := worker(c.second, "a", 0)
			other, others := worker("other", identified(c.others), 0)
			its.proven = c.proven
			one.learn(t, its, c.o, several)
			if c.second != "" {
				two.learn(t, also, c.o, several)
			}
			other.read(t)
			if got := others.pauseLeft(time.Now()) > 0; got != c.want {
				t.Errorf("the others pause: %t", got)
			}
			one.read(t)
			if got := its.status(time.Now()); got.Pause != c.o.Reason || got.Alone != c.alone {
				t.Errorf("the worker itself: %+v", got)
			}
		})
	}
}

// What keeps to another worker's pause has seen no trouble of its own, and what an
// operator has tried again has none until a push shows it.
func TestARouteWithoutFailuresTellsNoTrouble(t *testing.T) {
	t.Parallel()
	rs := routesOf(nil, "", "", map[push.Platform]providers.Sender{push.APNs: identified("a")}, 0)
	r, now := rs.Of("shop")[push.APNs], time.Now()
	r.apply(pause.Pause{App: "shop", Platform: push.APNs, Reason: "QUOTA_EXCEEDED", Until: now.Add(time.Hour)}, true, now)
	r.breaker.trip(false)
	if s := r.status(now); s.Pause == "" || s.Breaker == BreakerClosed || s.Trouble != (Trouble{}) {
		t.Errorf("of another worker's pause: %+v", s)
	}
	rs.learn(t, r, serverError, 1)
	if s := r.status(now); s.Trouble.Reason != serverError.Reason || s.Trouble.Since.IsZero() || s.Trouble.Next.IsZero() {
		t.Errorf("after a failure: %+v", s)
	}
	r.lift(func(pause.Pause) bool { return true })
	if s := r.status(now); s.Breaker != BreakerHalfOpen || s.Pause != "" || s.Trouble != (Trouble{}) {
		t.Errorf("tried again: %+v", s)
	}
	rs.learn(t, r, serverError, 1)
	if s := r.status(now); s.Trouble.Failures != 1 {
		t.Errorf("after another failure: %+v", s)
	}
}
