package console

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
)

// The page of a notification that waits for a limit shows the limit, the time and the notification
// before it. It does not look like a failure, and shows no token.
func TestWaitingNotificationShowsLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow)
	ids := r.line("ada", 4)
	text := r.get(http.StatusOK, "/console/notifications/"+ids[2])
	contains(t, text, "It waits for a limit of its user: the general limit 1/1h, until <time", "number 2 of 3", `href="/console/notifications/`+ids[1]+`?app=shop&amp;user=ada"`, "Put off 1 time",
		`href="/console/users/ada?app=shop"`, "<details>", "…a1b2c3", "10000000000000001", "<ol>")
	lacks(t, text, secret[:20], `class="fault"`, "chip fault")
}

// A failed notification looks like a failure, and shows its stored content. A delivered notification
// has no stored content.
func TestFailedNotificationShowsContent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.addLetter(toUser("bad", "ada", "news"), "unknown_app", time.Now())
	text := r.get(http.StatusOK, "/console/notifications/bad")
	contains(t, text, "It was rejected", "chip fault", "it is unknown_app", `href="/console/dead-letters/bad?app=shop&amp;user=ada"`, "…a1b2c3")
	lacks(t, text, secret[:20], ">Cancel notification<")
	r.enqueue(toUser("good", "ada", "news"))
	_, err := storetest.At(r.t, r.setting.Work.Records, "good").Settle(t.Context(), "good", &store.End{State: push.Delivered, Attempts: 1, Outcomes: []store.TargetOutcome{{Platform: push.APNs, TokenEnd: "a1b2c3", Kind: "delivered", ProviderID: "<x>"}}})
	must(t, err)
	text = r.get(http.StatusOK, "/console/notifications/good")
	contains(t, text, "It was delivered", "not kept after its end", "&lt;x&gt;")
	lacks(t, text, "chip fault", ">Cancel notification<")
}

// A notification is cancelled after a confirmation, and the ones behind it move up.
func TestCancelNotification(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow, withTokens)
	operator, viewer := r.as(operatorToken), r.as(viewerToken)
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
	to := operator.post(http.StatusSeeOther, at, url.Values{"confirmed": {"yes"}, "expect": {"1"}})
	contains(t, operator.get(http.StatusOK, to), "1 cancelled.", "It was cancelled")
	r.states(map[push.State]int64{push.Waiting: 2, push.Cancelled: 1})
	line, err := r.setting.Work.Inspect.Timeline(t.Context(), "shop", "ada", nil)
	must(t, err)
	if len(line.Bookings) != 1 || line.Bookings[0].ID != ids[2] || time.Until(line.Bookings[0].Slot) > time.Hour {
		t.Errorf("the one behind has not moved up: %+v", line.Bookings)
	}
	operator.post(http.StatusConflict, at, url.Values{"confirmed": {"yes"}})
	for _, unknown := range []string{"none", "%00"} {
		operator.get(http.StatusNotFound, "/console/notifications/"+unknown)
		operator.post(http.StatusNotFound, "/console/notifications/"+unknown, url.Values{"confirmed": {"yes"}})
	}
}

// The confirmation to cancel a digest's carrier counts the others that end with it, and appears
// once.
func TestConfirmationOfCarrierCountsMembers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, id := range []string{"one", "two"} {
		n := toUser(id, "ada", "news")
		n.Digest = &push.Digest{Key: "k"}
		r.enqueue(n)
		joiner := &store.Joiner{App: n.App, User: n.User, Key: "k", Job: &store.Job{ID: id, Queue: push.Default.Queue()}, JSON: []byte("{}"), Most: 100}
		_, err := storetest.At(t, r.setting.Work.Records, "one").Digest(t.Context(), store.WaitInDigest, joiner)
		must(t, err)
	}
	at := "/console/notifications/one"
	contains(t, r.post(http.StatusOK, at, nil), "1 notification that waits is ended", "Its push is a digest of 1 other, which ends with it.", `name="expect" value="2"`)
	contains(t, r.post(http.StatusOK, at, url.Values{"confirmed": {"yes"}, "expect": {"1"}}), "1 other")
	to := r.post(http.StatusSeeOther, at, url.Values{"confirmed": {"yes"}, "expect": {"2"}})
	contains(t, r.get(http.StatusOK, to), "2 cancelled.", "It was cancelled")
}

// A waiting notification never has the colour of failures, for any cause.
func TestWaitingNotificationHasNoFailureColour(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, cause := range inspect.Causes {
		s := &inspect.Status{ID: "one", Record: &store.Record{State: push.Waiting, Error: "FCM answered 500"}, Waits: &inspect.Waits{For: cause, Reason: "r"}}
		s.Outcomes = []store.TargetOutcome{{}, {Kind: "retry"}}
		v := viewOfNotification(s, nil, nil, now)
		if v.Tone != words.Warns || v.Targets[0].Tone == words.Wrong || v.Targets[1].Tone == words.Wrong {
			t.Errorf("%s: %+v", cause, v)
		}
	}
	gone := &inspect.Status{ID: "one", Record: &store.Record{State: push.Exhausted, Deferrals: 1, Outcomes: []store.TargetOutcome{{Kind: "retry", Reason: "TooManyRequests"}}}}
	v := viewOfNotification(gone, nil, nil, now)
	if v.Targets[0].Tone != words.Wrong {
		t.Errorf("one that was given up: %+v", v.Targets)
	}
	if s := v.Steps[1]; s.Name != "Put off 1 time" || s.Text != "" || !s.Until.IsZero() { // the record no longer has the limit
		t.Errorf("%+v", s)
	}
}

// The page of a notification needs a bounded number of commands for any length of its queue, and
// concurrent visitors share them.
func TestNotificationInLongQueueIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow)
	ids := r.line("ada", 3)
	r.stretch("shop", "ada", "news", 1500)
	var count redistest.Trips
	r.client.AddHook(&count)
	text := r.get(http.StatusOK, "/console/notifications/"+ids[2])
	contains(t, text, "number 2 of at least 1,000")
	if n, _ := count.Commands(); n == 0 || n > 600 || len(text) > 60_000 {
		t.Errorf("%d commands, %d bytes", n, len(text))
	}
}
