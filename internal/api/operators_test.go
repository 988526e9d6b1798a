package api

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/auditlog"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// A pause is begun, shown and ended, and the audit log names the operator.
func TestPauseIsBegunShownAndEnded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	list := func() (all []pause.Pause) {
		list := into[struct{ Pauses []pause.Pause }](r.do(http.StatusOK, viewerToken, "GET", "/v1/pauses", ""))
		return list.Pauses
	}
	const path = "/v1/pauses?app=demo&platform=apns&category=a%2Fb%20c"
	r.do(http.StatusOK, operatorToken, "PUT", path, `{"until":"2126-01-01T00:00:00Z","reason":"a new certificate"}`)
	r.do(http.StatusOK, operatorToken, "PUT", "/v1/pauses?all=true", `{}`)
	got := list()
	if len(got) != 2 || got[0].By != "ada" || got[0].App != "" || got[0].At.IsZero() || !got[0].Until.IsZero() {
		t.Fatalf("%+v", got)
	}
	if p := got[1]; p.Kind != pause.Operator || p.App != "demo" || p.Platform != push.APNs || p.Category != "a/b c" || p.Reason != "a new certificate" || p.Until.Year() != 2126 {
		t.Errorf("%+v", p)
	}
	r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", notification("held", "ada"))
	if status := into[inspect.Status](r.do(http.StatusOK, viewerToken, "GET", "/v1/notifications/held", "")); len(status.Paused) != 1 || status.Paused[0].By != "ada" {
		t.Errorf("%+v", status)
	}
	if ended := into[struct{ Ended []pause.Pause }](r.do(http.StatusOK, operatorToken, "DELETE", path, "")); len(ended.Ended) != 1 || ended.Ended[0] != got[1] {
		t.Errorf("%+v", ended)
	}
	r.do(http.StatusNotFound, operatorToken, "DELETE", path, "")
	r.do(http.StatusOK, operatorToken, "DELETE", "/v1/pauses?all=true", "")
	if got := list(); got == nil || len(got) != 0 {
		t.Errorf("%+v", got)
	}
	newest := r.actions("?limit=3")
	if len(newest) != 3 {
		t.Fatalf("%+v", newest)
	}
	first := r.actions("?before=" + newest[2].Cursor)
	if e := first[0]; len(first) != 1 || e.Action != auditlog.Pause || e.By != "ada" || e.App != "demo" || e.Platform != "apns" || e.Reason != "a new certificate" || e.Until.Year() != 2126 {
		t.Errorf("%+v", first)
	}
}

// An invalid pause is refused, and nothing begins or ends.
func TestInvalidPauseIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, demo)
	for _, c := range []struct{ query, body, pointer string }{
		{"", `{}`, ""},
		{"?app=" + canary, `{}`, ""},
		{"?all=true&app=demo", `{}`, ""},
		{"?app=%00" + canary, `{}`, ""},
		{"?platform=apns&app=%zz" + canary, `{}`, ""},
		{"?app=demo&app=" + canary, `{}`, ""},
		{"?app=demo", `{"until":"2020-01-01T00:00:00Z"}`, "/until"},
		{"?app=demo", `{"reason":"a\u0000"}`, "/reason"},
	} {
		p := r.do(http.StatusBadRequest, operatorToken, "PUT", "/v1/pauses"+c.query, c.body).problem(t)
		if got := strings.Join(pointers(p), " "); got != c.pointer || c.pointer == "" && p.Detail == "" {
			t.Errorf("%s %s: %+v", c.query, c.body, p)
		}
		r.oneLine(http.StatusBadRequest, "/v1/pauses", "ada")
		if c.body == `{}` && !strings.Contains(c.query, "app="+canary) {
			r.do(http.StatusBadRequest, operatorToken, "DELETE", "/v1/pauses"+c.query, "")
			r.logged()
		}
	}
	if all, err := r.options.Inspect.Pauses(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// A dead letter is shown, requeued and purged. The list has pages and filters.
func TestDeadLetterIsShownRequeuedAndPurged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const id, all = "a/b c?", 30
	path := "/v1/dead-letters/" + url.PathEscape(id)
	r.do(http.StatusNotFound, viewerToken, "GET", path, "")
	r.bury(id)
	shown := into[operate.DeadLetter](r.do(http.StatusOK, viewerToken, "GET", path, ""))
	if shown.Letter.ID != id || shown.Notification == nil || shown.Notification.User != "ada" || len(shown.Job) == 0 {
		t.Errorf("%+v", shown)
	}
	r.do(http.StatusAccepted, operatorToken, "POST", path+"/requeue", "")
	r.do(http.StatusNotFound, operatorToken, "POST", path+"/requeue", "")
	if status := into[inspect.Status](r.do(http.StatusOK, viewerToken, "GET", "/v1/notifications/"+url.PathEscape(id), "")); status.State != push.Waiting {
		t.Errorf("%+v", status)
	}
	for i := range all + 1 {
		r.bury(fmt.Sprintf("n-%d", i))
	}
	r.do(http.StatusNoContent, operatorToken, "DELETE", "/v1/dead-letters/n-30", "")
	r.do(http.StatusNotFound, operatorToken, "DELETE", "/v1/dead-letters/n-30", "")
	seen, pages, next := map[string]bool{}, 0, ""
	for ; pages == 0 || next != ""; pages++ {
		p := into[operate.LetterPage](r.do(http.StatusOK, viewerToken, "GET", "/v1/dead-letters?limit=7&cursor="+next, ""))
		for _, l := range p.Letters {
			seen[l.ID] = true
		}
		next = p.Next
	}
	if len(seen) != all || pages < 3 {
		t.Errorf("%d letters on %d pages", len(seen), pages)
	}
	for query, want := range map[string]int{"app=demo&category=orders&reason=payload&since=1d": all, "app=gone": 0, "category=chat": 0, "reason=auth": 0, "since=1ns": 0} {
		if p := into[operate.LetterPage](r.do(http.StatusOK, viewerToken, "GET", "/v1/dead-letters?limit=1000&"+query, "")); len(p.Letters) != want {
			t.Errorf("%s: %d letters, want %d", query, len(p.Letters), want)
		}
	}
	for _, query := range []string{"dead-letters?since=x", "dead-letters?reson=x", "dead-letters?limit=1001", "dead-letters?cursor=16-0", "actions?limit=0", "actions?before=x", "actions?after=1"} {
		r.do(http.StatusBadRequest, viewerToken, "GET", "/v1/"+query, "")
	}
}

// Inside the process an ID of a dead letter may have any length: a malformed job keeps the ID
// that its producer gave it.
func TestLongLetterIDIsAcceptedInProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := strings.Repeat("x", 3*maxPath)
	letter := &store.Letter{ID: id, State: store.Malformed, Reason: "not_json", At: time.Now(), Queue: push.Default.Queue(), Job: []byte("x")}
	must(t, storetest.First(r.t, r.options.Records).SetAside(t.Context(), letter))
	path := "/v1/dead-letters/" + id
	r.do(http.StatusNotFound, operatorToken, "GET", path, "")
	r.api = New(Options{Service: r.service, Local: &operate.Principal{Name: "ann@here", Role: config.Operator}, Log: r.options.Log})
	r.do(http.StatusOK, "", "GET", path, "")
	r.do(http.StatusNoContent, "", "DELETE", path, "")
	if log := strings.Join(r.log.lines(), "\n"); !strings.Contains(log, `"by":"ann@here"`) {
		t.Error(log)
	}
}

// A loss of data is in the overview until an operator of all apps confirms it, once.
func TestLossIsShownUntilConfirmed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := time.UnixMilli(time.Now().UnixMilli()).UTC()
	named := func(at time.Time) string { return "/v1/losses?at=" + at.Format(time.RFC3339Nano) }
	r.do(http.StatusNotFound, operatorToken, "DELETE", named(at), "")
	must(t, r.client.HSet(t.Context(), "pushpace:losses", "at", at.UnixMilli(), "pauses:a", 1, "pauses:b", 2, "notifications:a", 7).Err())
	lost := func() (l *control.Loss) {
		eventually.Holds(t, "the loss is read", func() bool {
			o := into[operate.Overview](r.do(http.StatusOK, viewerToken, "GET", "/v1/overview", ""))
			l = o.Lost
			return o.NotRead(operate.PartLost) == ""
		})
		return l
	}
	if l := lost(); l == nil || l.Pauses != 2 || l.Notifications != 7 {
		t.Errorf("the overview has %+v", l)
	}
	r.do(http.StatusForbidden, viewerToken, "DELETE", named(at), "")
	for _, path := range []string{"/v1/losses", "/v1/losses?at=now"} {
		r.do(http.StatusBadRequest, operatorToken, "DELETE", path, "")
	}
	if p := r.do(http.StatusConflict, operatorToken, "DELETE", named(at.Add(-time.Millisecond)), "").problem(t); p.Code != "more_lost" || lost() == nil {
		t.Errorf("one that was shown before: %+v", p)
	}
	if l := into[control.Loss](r.do(http.StatusOK, operatorToken, "DELETE", named(at), "")); l.Pauses != 2 {
		t.Errorf("confirmed is %+v", l)
	}
	if l := lost(); l != nil {
		t.Errorf("after it is confirmed: %+v", l)
	}
	if all := r.actions("?limit=3"); len(all) != 1 || all[0].Action != auditlog.ConfirmLoss {
		t.Errorf("%+v", all)
	}
}

// The overview, the workers, the throughput and the audit are answered.
func TestOverview(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", notification("one", "ada"))
	r.bury("gone")
	now := time.Now()
	must(t, control.AddMinutes(t.Context(), r.client, "", []control.Minute{{At: now.Add(-2 * time.Hour), Sent: 7}, {At: now, Sent: 3}}))
	var o operate.Overview
	eventually.Holds(t, "all parts are read", func() bool { // a slow machine reads some parts too late
		o = into[operate.Overview](r.do(http.StatusOK, viewerToken, "GET", "/v1/overview", ""))
		return len(o.Unread) == 0
	})
	if o.Waiting != 1 || len(o.Waits) != 1 || o.Waits[0].For != inspect.ForWorker || o.Letters.Reasons["payload"] != 1 || len(o.Redis) != 1 || o.Redis[0].Version == "" {
		t.Errorf("%+v", o)
	}
	into[struct{ Workers []control.Snapshot }](r.do(http.StatusOK, viewerToken, "GET", "/v1/workers", ""))
	if got := into[operate.Throughput](r.do(http.StatusOK, viewerToken, "GET", "/v1/throughput?range=24h", "")); len(got.Buckets) != 96 {
		t.Errorf("%+v", got)
	}
	r.do(http.StatusBadRequest, viewerToken, "GET", "/v1/throughput?range=7d", "")
	audit := into[inspect.Audit](r.do(http.StatusOK, viewerToken, "GET", "/v1/audit", ""))
	if audit.Accepted != 2 || audit.Waiting != 1 || audit.Balance() == inspect.Incomplete {
		t.Errorf("%+v", audit)
	}
}

// The waiting list has filters. Several IDs are cancelled, requeued or purged in one request,
// each with its own outcome.
func TestBulkRequestHasAnOutcomePerID(t *testing.T) {
	t.Parallel()
	r := newRig(t, demo)
	later := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for id, more := range map[string]string{"plain": "", "critical": `"priority":"critical",`} {
		text := strings.Replace(notification(id, "ada"), `"title"`, `"not_before":"`+later+`",`+more+`"title"`, 1)
		r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", text)
	}
	r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", strings.Replace(notification("code", "ada"), "orders", "security", 1))
	// mutable leaves out critical and exempt notifications
	for query, want := range map[string]int{"user=ada": 3, "user=ada&mutable=true": 1, "mutable=true&category=security": 0, "category=orders": 2, "app=shop": 0} {
		if page := into[inspect.Page](r.do(http.StatusOK, viewerToken, "GET", "/v1/waiting?"+query, "")); len(page.Waiting) != want {
			t.Errorf("%s: %+v", query, page.Waiting)
		}
	}
	for _, query := range []string{"app=shp", "catgory=orders", "cursor=x", "mutable=no"} {
		r.do(http.StatusBadRequest, viewerToken, "GET", "/v1/waiting?"+query, "")
	}
	r.bury("gone")
	r.bury("purged")
	act := func(path string, ids ...string) string {
		answer := into[struct{ Results []done }](r.do(http.StatusOK, operatorToken, "POST", path, `{"ids":["`+strings.Join(ids, `","`)+`"]}`))
		got := ""
		for _, one := range answer.Results {
			got += string(one.Outcome) + " "
		}
		return strings.TrimSpace(got)
	}
	for _, c := range []struct{ path, ids, want string }{
		{"/v1/cancellations", "plain critical nobody", "done done unknown"}, {"/v1/cancellations", "plain code", "ended done"},
		{"/v1/requeues", "gone nobody a\\u0000b", "done unknown unknown"}, // another program may have queued a job with any ID
		{"/v1/purges", "purged", "done"}, {"/v1/purges", "purged", "unknown"},
	} {
		if got := act(c.path, strings.Fields(c.ids)...); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.path, c.ids, got, c.want)
		}
	}
	for body, pointer := range map[string]string{
		`{"ids":[]}`: "/ids", `{"ids":[` + strings.Repeat(`"a",`, operate.MostIDs) + `"a"]}`: "/ids", `{"ids":["a","` + strings.Repeat("b", maxLetterID+1) + `"]}`: "/ids/1",
		`{"ids":[{}]}`: "/ids/0/id", `{"ids":[5]}`: "/ids/0", `{"ids":[{"id":"a","usr":"u"}]}`: "/ids/0/usr", `{"ids":[{"id":"a","app":"shop","app":"mail"}]}`: "/ids/0/app",
	} {
		for _, path := range []string{"/v1/cancellations", "/v1/requeues", "/v1/purges"} {
			if p := r.do(http.StatusBadRequest, operatorToken, "POST", path, body).problem(t); !slices.Equal(pointers(p), []string{pointer}) {
				t.Errorf("%s %.80s: %q", path, body, pointers(p))
			}
		}
	}
}

// A timeline shows admissions and slots of a user, for the requested scopes.
func TestTimelineShowsAdmissionsAndSlots(t *testing.T) {
	t.Parallel()
	r := newRig(t, demo)
	must(t, r.options.Overrides.Set(t.Context(), limits.Override{Level: limits.Level{User: "ö/d a", Category: "news", Mute: true}, By: "ada"}))
	limiter := r.options.Preview.Lines.(throttle.Limiter)
	for _, id := range []string{"one", "two", "three"} {
		_, err := limiter.Acquire(t.Context(), throttle.Request{App: "demo", User: "ö/d a", ID: id, Scopes: []throttle.Scope{{Name: throttle.General, Policy: throttle.Policy{MinGap: time.Hour}}}, Horizon: 24 * time.Hour})
		must(t, err)
	}
	const path = "/v1/users/%C3%B6%2Fd%20a/timeline"
	var got inspect.Timeline
	eventually.Holds(t, "the admission has come", func() bool { // its instant may be slightly ahead of Redis's clock
		got = into[inspect.Timeline](r.do(http.StatusOK, viewerToken, "GET", path+"?app=demo&category=news&category=security", ""))
		return len(got.Bookings) < 3
	})
	if got.App != "demo" || got.User != "ö/d a" || len(got.Scopes) != 3 || !got.Scopes[1].Muted || !got.Scopes[2].Exempt || len(got.Bookings) != 2 || got.Bookings[0].ID != "two" || got.Bookings[0].Rule != "gap" {
		t.Errorf("%+v", got)
	}
	if p := r.do(http.StatusBadRequest, viewerToken, "GET", path, "").problem(t); p.Detail != "The app is missing." || !slices.Equal(p.Apps, []string{"demo", "shop"}) {
		t.Errorf("%+v", p)
	}
	for _, bad := range []string{path + "?app=none", path + "?app=demo" + strings.Repeat("&category=c", 101), "/v1/users/%00/timeline?app=demo"} {
		r.do(http.StatusBadRequest, viewerToken, "GET", bad, "")
	}
	one := newRigOn(t, r.client, func(o *rigOptions) { o.Apps = operate.Apps{"demo": {}} })
	one.do(http.StatusOK, operatorToken, "GET", path, "") // there is only one app
}
