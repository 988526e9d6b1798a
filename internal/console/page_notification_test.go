package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/ledger/ledgertest"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// slow has a user get one an hour.
func slow(o *setting) {
	o.Work.Limits.SetBase(throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: time.Hour}}}, nil)
}

func contains(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

func lacks(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, never := range all {
		if strings.Contains(text, never) {
			t.Errorf("%q is in:\n%s", never, text)
		}
	}
}

// One that waits for a limit says by which, until when, and behind whom; it looks like
// no failure, and shows no token.
func TestNotificationWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow)
	ids := r.line("ada", 4)
	text := r.get(http.StatusOK, "/console/notifications/"+ids[2])
	contains(t, text, "It waits for a limit of its user: the general limit 1/1h, until <time", "2nd of 3", `href="/console/notifications/`+ids[1]+`?app=shop&amp;user=ada"`, "Put off once",
		`href="/console/users/ada?app=shop"`, "<details>", "…a1b2c3", "10000000000000001", "<ol>")
	lacks(t, text, secret[:20], `class="fault"`, "chip fault")
}

// A pause that keeps it is told with who has begun it, and until when.
func TestNotificationPaused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.enqueue(toUser("one", "ada", "news"))
	must(t, r.setting.Work.Control.Pause(t.Context(), pause.Pause{App: "shop", By: "grace", Reason: "the fair <b>\u202e"}))
	text := r.get(http.StatusOK, "/console/notifications/one")
	contains(t, text, "paused by grace", `\u202e`)
	lacks(t, text, "<b>", "\u202e", `class="fault"`, "chip fault")
}

// What failed for good looks so, and what it holds is shown as it was kept; what was
// delivered is not kept.
func TestNotificationEnded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bury(toUser("bad", "ada", "news"), "unknown_app", time.Now())
	text := r.get(http.StatusOK, "/console/notifications/bad")
	contains(t, text, "It was rejected", "chip fault", "it is unknown_app", `href="/console/dead-letters/bad?app=shop&amp;user=ada"`, "…a1b2c3")
	lacks(t, text, secret[:20], ">Cancel notification<")
	r.enqueue(toUser("good", "ada", "news"))
	_, err := ledgertest.At(r.t, r.setting.Work.Records, "good").Settle(t.Context(), "good", &ledger.End{State: push.Delivered, Attempts: 1, Outcomes: []ledger.TargetOutcome{{Platform: push.APNs, TokenEnd: "a1b2c3", Kind: "delivered", ProviderID: "<x>"}}})
	must(t, err)
	text = r.get(http.StatusOK, "/console/notifications/good")
	contains(t, text, "It was delivered", "not kept after its end", "&lt;x&gt;")
	lacks(t, text, "chip fault", ">Cancel notification<")
}

// One is cancelled once that is confirmed, and those behind it move up.
func TestCancelNotification(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow, func(o *setting) {
		o.Tokens.Set([]config.Token{testToken("ada", config.Operator, "o"), testToken("eve", config.Viewer, "v")})
	})
	operator, viewer := r.as("o"), r.as("v")
	ids := r.line("ada", 3)
	at := "/console/notifications/" + ids[1]
	contains(t, operator.get(http.StatusOK, at), ">Cancel notification<")
	lacks(t, viewer.get(http.StatusOK, at), ">Cancel notification<")
	contains(t, operator.post(http.StatusOK, at, nil), "1 notification", ids[1], `name="confirmed" value="yes"`)
	viewer.post(http.StatusForbidden, at, url.Values{"confirmed": {"yes"}})
	operator.post(http.StatusBadRequest, at, url.Values{"confirmed": {"yes"}, "more": {"x"}})
	if r.state(ids[1]) != push.Waiting {
		t.Error("it is cancelled without a confirmation")
	}
	to := operator.post(http.StatusSeeOther, at, url.Values{"confirmed": {"yes"}})
	contains(t, operator.get(http.StatusOK, to), "1 cancelled.", "It was cancelled")
	r.states(map[push.State]int64{push.Waiting: 2, push.Cancelled: 1})
	line, err := r.setting.Work.Control.Timeline(t.Context(), "shop", "ada", nil)
	must(t, err)
	if len(line.Bookings) != 1 || line.Bookings[0].ID != ids[2] || time.Until(line.Bookings[0].Slot) > time.Hour {
		t.Errorf("the one behind has not moved up: %+v", line.Bookings)
	}
	operator.post(http.StatusConflict, at, url.Values{"confirmed": {"yes"}})
	for _, unknown := range []string{"none", "%00", "%F0%9F%98%80", strings.Repeat("x", 300)} {
		operator.get(http.StatusNotFound, "/console/notifications/"+unknown)
		operator.post(http.StatusNotFound, "/console/notifications/"+unknown, url.Values{"confirmed": {"yes"}})
	}
}

// Of another app's nothing is seen, and nothing cancelled.
func TestNotificationOfAnotherApp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.enqueue(toUser("one", "ada", "news"))
	const at = "/console/notifications/one"
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if status, text := r.ofApps([]string{"mail"}, method, at, url.Values{}); status != http.StatusNotFound || strings.Contains(text, "ada") {
			t.Errorf("%s: %d %s", method, status, text)
		}
	}
	if status, _ := r.ofApps([]string{"mail"}, http.MethodPost, at, url.Values{"confirmed": {"yes"}}); status != http.StatusNotFound || r.state("one") != push.Waiting {
		t.Errorf("%d, %s", status, r.state("one"))
	}
	if status, _ := r.ofApps([]string{"mail", "shop"}, http.MethodPost, at, url.Values{"confirmed": {"yes"}}); status != http.StatusSeeOther || r.state("one") != push.Cancelled {
		t.Errorf("%d, %s", status, r.state("one"))
	}
}

// Nothing that merely waits is in the colour of failures, whatever it waits for.
func TestWhatWaitsIsNoFailure(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, cause := range control.Causes {
		s := &control.Status{ID: "one", Record: &ledger.Record{State: push.Waiting, Error: "FCM answered 500"}, Waits: &control.Waits{For: cause, Reason: "r"}}
		s.Outcomes = []ledger.TargetOutcome{{}, {Kind: "retry"}}
		v := viewOfNotification(s, nil, nil, now)
		if v.Tone != toneWaits || v.Targets[0].Tone == toneFault || v.Targets[1].Tone == toneFault {
			t.Errorf("%s: %+v", cause, v)
		}
	}
}

// What waits for quiet hours, and then for a limit, says each instant once.
func TestNotificationInQuietHours(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.November, 25, 23, 0, 0, 0, time.UTC)
	s := &control.Status{ID: "one", Record: &ledger.Record{State: push.Waiting}, Waits: &control.Waits{
		For: control.ForQuiet, QuietUntil: now.Add(9 * time.Hour), Rule: "3/1h", Reason: "3/1h of the general limits", Until: now.Add(10 * time.Hour),
	}}
	v := viewOfNotification(s, nil, nil, now)
	if got := said(v.Answer[0]); got != "It waits for quiet hours until 08:00, then for 3/1h of the general limits until 09:00" || !v.Until.IsZero() {
		t.Errorf("%s, %s", got, v.Until)
	}
}

func TestOrdinal(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 111: "111th", 1001: "1,001st"} {
		if got := ordinal(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

// However long the line is that it stands in, and however many look at it, the work is
// bounded, and done once.
func TestNotificationOfALongLine(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow)
	ids := r.line("ada", 3)
	r.stretch("shop", "ada", "news", 100_000)
	var count counter
	r.client.AddHook(&count)
	text := r.get(http.StatusOK, "/console/notifications/"+ids[2])
	contains(t, text, "2nd of at least 1,000")
	if n := count.commands.Load(); n == 0 || n > 600 || len(text) > 60_000 {
		t.Errorf("%d commands, %d bytes", n, len(text))
	}
	for range 3 {
		began, before := time.Now(), count.trips.Load()
		r.get(http.StatusOK, "/console/notifications/"+ids[2])
		if count.trips.Load() > before && time.Since(began) < Fresh/2 {
			t.Error("another tab is read for")
		}
	}
}
