package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
)

// An operator mutes a user, sees the mute wherever limits are shown, and unmutes.
func TestMuteForm(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens)
	operator, viewer := r.as(operatorToken), r.as(viewerToken)
	later := time.Now().Add(time.Hour)
	for _, id := range []string{"one", "two", "critical"} {
		n := toUser(id, "ada", "news")
		if n.NotBefore = later; id == "critical" {
			n.Priority = push.Critical
		}
		r.enqueue(n)
	}
	level, mute := limits.Level{User: "ada"}, limits.Level{User: "ada", Mute: true}
	text := operator.get(http.StatusOK, editOf(level))
	contains(t, text, "<dt>Muted</dt><dd>no", `action="/console/limits/mute"`)
	lacks(t, text, ">Unmute<")
	lacks(t, viewer.get(http.StatusOK, editOf(level)), `action="/console/limits`)

	form := url.Values{"user": {"ada"}, "app": {""}, "category": {""}, "for": {"2h"}, "until": {""}, "do": {"mute"}}
	viewer.post(http.StatusForbidden, mutePath, form)
	asked := operator.post(http.StatusOK, mutePath, form)
	contains(t, asked, "2 notifications that wait end muted.", "Critical notifications, and those of exempt categories, pass.", "user ada", "until ")
	if r.there(mute) != nil {
		t.Fatal("it is muted before that is confirmed")
	}
	if to := operator.post(http.StatusSeeOther, mutePath, hidden(t, asked)); to != "/console/limits/edit?done=muted&user=ada" {
		t.Errorf("leads to %s", to)
	}
	o := r.there(mute)
	if o == nil || o.All || o.By != "ada" || time.Until(o.Until) > 2*time.Hour || time.Until(o.Until) < time.Hour {
		t.Fatalf("%+v", o)
	}
	r.refresh()
	form.Set("all", "yes")
	form.Set("for", "")
	asked = operator.post(http.StatusOK, mutePath, form)
	contains(t, asked, "3 notifications that wait end muted.", "end too.")
	operator.post(http.StatusSeeOther, mutePath, hidden(t, asked))
	r.refresh()
	contains(t, operator.get(http.StatusOK, editOf(limits.Level{App: "shop", User: "ada", Category: "news"})+"&done=muted"), "Muted on every worker", "<dt>Muted</dt><dd><p>of the user, critical and exempt ones too</p>")
	text = operator.get(http.StatusOK, editOf(level))
	contains(t, text, ">Unmute<", "<dt>Override here</dt><dd>none")
	contains(t, operator.get(http.StatusOK, limitsPath), "muted, critical and exempt ones too", `href="/console/limits/edit?user=ada"`)
	contains(t, operator.get(http.StatusOK, limitsLogPath), "muted, critical and exempt ones too", "muted until", `href="/console/limits/edit?user=ada"`)

	form.Set("do", "unmute")
	for range 2 { // the second time there is no mute
		if to := operator.post(http.StatusSeeOther, mutePath, form); !strings.Contains(to, "done=unmuted") || r.there(mute) != nil {
			t.Errorf("leads to %s", to)
		}
	}

	// a mute of many users requires the number that was shown
	many := url.Values{"app": {"shop"}, "category": {"news"}, "do": {"mute"}}
	asked = operator.post(http.StatusOK, mutePath, many)
	contains(t, asked, "2 notifications that wait end muted.")
	r.enqueue(toUser("three", "bob", "news"))
	asked = operator.post(http.StatusOK, mutePath, hidden(t, asked))
	contains(t, asked, "nothing was done", "3 notifications that wait end muted.")
	operator.post(http.StatusSeeOther, mutePath, hidden(t, asked))
	if r.there(limits.Level{App: "shop", Category: "news", Mute: true}) == nil {
		t.Error("it is not muted")
	}
}
