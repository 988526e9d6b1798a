package console

import (
	"html"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// The page of an ID that several users have links to each one's, on which is acted on that
// user's alone.
func TestChoiceOfAnID(t *testing.T) {
	t.Parallel()
	client := redistest.Own(t)
	redistest.Divide(t, client, "pushpace", "8")
	r := newRigOn(t, client)
	ada, ben := toUser("same", "ada", "news"), toUser("same", "ben", "news")
	for shard.Of(8, ben.App, ben.User) == shard.Of(8, ada.App, ada.User) {
		ben.User += "n"
	}
	r.enqueue(ada, ben)
	text := r.get(http.StatusOK, "/console/waiting")
	contains(t, text, "2 wait.", `value="`+html.EscapeString(selectable("same", "shop", ben.User))+`"`, `value="`+html.EscapeString(selectable("same", "shop", "ada"))+`"`)
	of := func(n *push.Notification) string { return "?" + url.Values{"app": {n.App}, "user": {n.User}}.Encode() }
	const page = "/console/notifications/same"
	for _, n := range []*push.Notification{ada, ben} {
		contains(t, text, `href="`+html.EscapeString(page+of(n))+`"`)
	}
	contains(t, r.get(http.StatusConflict, page), `href="`+html.EscapeString(page+of(ada))+`"`, `href="`+html.EscapeString(page+of(ben))+`"`)
	contains(t, r.get(http.StatusOK, page+of(ben)), ben.User, `action="`+html.EscapeString(page+of(ben))+`"`)
	r.post(http.StatusConflict, page, url.Values{"confirmed": {"yes"}})
	r.post(http.StatusSeeOther, page+of(ben), url.Values{"confirmed": {"yes"}})
	contains(t, r.get(http.StatusOK, page+of(ben)), "It was cancelled")
	r.states(map[push.State]int64{push.Cancelled: 1, push.Waiting: 1})
}

// What is selected, and all that match, are those that were listed, where several users
// have an ID.
func TestSelectionsOfAnID(t *testing.T) {
	t.Parallel()
	client := redistest.Own(t)
	redistest.Divide(t, client, "pushpace", "8")
	r := newRigOn(t, client)
	ada, ben := toUser("same", "ada", "news"), toUser("same", "ben", "news")
	for shard.Of(8, ben.App, ben.User) == shard.Of(8, ada.App, ada.User) {
		ben.User += "n"
	}
	// confirmed has the form's act done once it is confirmed, and returns where that leads.
	confirmed := func(path string, form url.Values, told ...string) string {
		t.Helper()
		asked := r.post(http.StatusOK, path, form)
		contains(t, asked, told...)
		return r.get(http.StatusOK, r.post(http.StatusSeeOther, path, hidden(t, asked)))
	}
	r.enqueue(ada, ben)
	contains(t, confirmed("/console/waiting", url.Values{"ref": {selectable("same", "shop", ben.User)}}, "1 notification", "same ("+ben.User+" of shop)"), "1 cancelled.", "1 waits.", "ada")
	contains(t, confirmed("/console/waiting", url.Values{"all": {"yes"}}, "1 notification"), "1 cancelled.", "Nothing waits.")

	const letters = "/console/dead-letters"
	for _, n := range []*push.Notification{ada, ben} {
		one := *n
		one.ID = "dead"
		at, err := r.setting.Work.Records.Of(t.Context(), one.App, one.User)
		must(t, err)
		job, err := push.Encode(&push.Job{Notification: &one, AcceptedAt: time.Now()})
		must(t, err)
		must(t, at.SetAside(t.Context(), &ledger.Letter{ID: one.ID, State: ledger.Malformed, Reason: "invalid", At: time.Now(), Queue: push.Default.Queue(), Job: job}))
	}
	contains(t, r.get(http.StatusOK, letters), "2 dead letters.")
	contains(t, confirmed(letters, url.Values{"do": {"purge"}, "ref": {selectable("dead", "shop", ben.User)}}, "1 dead letter"), "1 purged.", "1 dead letter.", "ada")
	contains(t, confirmed(letters, url.Values{"do": {"purge-all"}}, "1 dead letter"), "1 purged.", "No dead letters.")
}
