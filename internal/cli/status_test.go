package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
)

// The status distinguishes a target without a push from a target with one.
func TestStatusShowsTargetsWithoutPush(t *testing.T) {
	t.Parallel()
	s := &inspect.Status{Record: &store.Record{State: push.Expired, Outcomes: []store.TargetOutcome{
		{}, {Kind: "dead_token", Reason: "unregistered"}, {Kind: "delivered"},
		{Ambiguous: true}, {Kind: "retry", Reason: "timed_out", Ambiguous: true}, {Kind: "delivered", Reason: "ok", Ambiguous: true},
	}}}
	var out strings.Builder
	must(t, printStatus(&out, s, "", time.Now()))
	for _, want := range []string{
		"target 1  not sent\n", "target 2  dead_token unregistered\n", "target 3  delivered\n",
		"target 4  may have been sent (ambiguous)\n", "target 5  retry timed_out, may have been sent (ambiguous)\n",
		"target 6  delivered ok, perhaps more than once (ambiguous)\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, &out)
		}
	}
}

func TestStatusNamesCauseOfWait(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 13, 29, 0, 0, time.UTC)
	trouble := pause.Pause{Kind: pause.Trouble, App: "shop", Platform: push.FCM, Error: "FCM answered 503 UNAVAILABLE", At: now.Add(-6 * time.Second), Until: now.Add(27 * time.Second)}
	for _, c := range []struct {
		waits  inspect.Waits
		paused []pause.Pause
		want   []string
	}{
		{inspect.Waits{For: inspect.ForLimit, Scope: "news", Rule: "1/24h", Until: now.Add(time.Hour)}, nil, []string{"waits for  a limit of its user: the limit 1/24h of category news\n", "until      2026-11-21T14:29:00.000Z, in 1h\n", "pushpace timeline --app shop ada,"}},
		{inspect.Waits{For: inspect.ForQuiet, QuietUntil: now.Add(time.Hour), Scope: "all", Rule: "3/1h", Reason: "3/1h of the general limits", Until: now.Add(2 * time.Hour)}, nil, []string{"waits for  quiet hours until 2026-11-21T14:29:00.000Z, then for 3/1h of the general limits until 2026-11-21T15:29:00.000Z\n", "pushpace timeline --app shop ada,"}},
		{inspect.Waits{For: inspect.ForSchedule, Until: now.Add(time.Minute)}, nil, []string{"waits for  the instant that its producer has set\n", "in 1m\n", "deferred   0 times\n"}},
		{inspect.Waits{For: inspect.ForAttempt, Reason: "FCM answered 500", Until: now.Add(-time.Second)}, nil, []string{"waits for  another attempt, after one that failed: FCM answered 500\n", ", now\n"}},
		{inspect.Waits{For: inspect.ForProvider, Platform: push.FCM}, []pause.Pause{trouble}, []string{"waits for  fcm of shop, in trouble since 2026-11-21T13:28:54.000Z: FCM answered 503 UNAVAILABLE; next look 2026-11-21T13:29:27.000Z\n"}},
		{inspect.Waits{For: inspect.ForProvider, Platform: push.FCM, Reason: "the provider is busy"}, nil, []string{"waits for  fcm of shop: the provider is busy\n"}},
		{inspect.Waits{For: inspect.ForWorker}, []pause.Pause{trouble}, []string{"waits for  a worker, which takes it next\n", "paused     fcm of shop, in trouble"}},
		{inspect.Waits{For: inspect.ForWorker, Reason: "no worker runs", Since: now.Add(-24 * time.Hour)}, nil, []string{"waits for  a worker since 2026-11-20T13:29:00.000Z: no worker runs\n"}},
		{inspect.Waits{For: inspect.ForLimiter, Reason: "NOPERM", Since: now.Add(-time.Minute)}, nil, []string{"waits for  the limits' Redis, away since 2026-11-21T13:28:00.000Z: NOPERM\n"}},
		{inspect.Waits{For: inspect.InHand}, nil, []string{"waits for  nothing: a worker is sending it\n"}},
		{inspect.Waits{For: inspect.ForRecovery, Reason: "the worker is gone"}, nil, []string{"waits for  its recovery from a crash, or from an outage of Redis: the worker is gone\n"}},
	} {
		s := &inspect.Status{ID: "one", Record: &store.Record{State: push.Waiting, App: "shop", User: "ada"}, Waits: &c.waits, Paused: c.paused}
		var out strings.Builder
		must(t, printStatus(&out, s, "", now))
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q is missing in:\n%s", c.waits.For, want, &out)
			}
		}
		if c.waits.For.HasSlot() && strings.Contains(out.String(), "0 times") {
			t.Errorf("%s", &out)
		}
	}
	var out strings.Builder
	s := &inspect.Status{Record: &store.Record{State: push.Delivered, Attempts: 3, FirstAttempt: now, Outcomes: []store.TargetOutcome{
		{Platform: push.FCM, TokenEnd: "a1b2c3", Kind: "delivered", Reason: "ok", ProviderID: "projects/shop/messages/1"}, {Platform: push.FCM, FIDEnd: "w9sLpA", Kind: "delivered", Reason: "ok"},
	}}}
	if err := printStatus(&out, s, "", now); err != nil || !strings.Contains(out.String(), "attempts  3, the first at 2026-11-21T13:29:00.000Z\n") ||
		!strings.Contains(out.String(), "fcm …a1b2c3 delivered ok as projects/shop/messages/1\n") || !strings.Contains(out.String(), "fcm fid …w9sLpA delivered ok\n") {
		t.Errorf("%v:\n%s", err, &out)
	}
}

// The status of a digested notification has the state of its carrier.
func TestStatusOfDigestedShowsCarrier(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		state push.State
		err   error
	}{
		"a-1, which was delivered":      {push.Delivered, nil},
		"a-1, which waits":              {push.Waiting, nil},
		"a-1, which expired":            {push.Expired, nil},
		"a-1, whose record has expired": {"", push.ErrUnknownID},
		"a-1: Redis is away":            {"", errors.New("Redis is away")},
	} {
		if got := digestedInto("a-1", &inspect.Status{Record: &store.Record{State: c.state}}, c.err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestWithdrawalIsDescribed(t *testing.T) {
	t.Parallel()
	for done, want := range map[push.Withdrawn]string{
		{Ended: 1}:             "1 notification is cancelled.",
		{Ended: 2, Carried: 3}: "2 notifications are cancelled, and 3 others with them.",
		{InFlight: 116}:        "0 notifications are cancelled; a worker is sending or checking 116 more: repeat the command until none is left.",
	} {
		if got := withdrawn(done); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
