package console

import (
	"net/http"
	"net/url"
	"testing"
	"time"
)

// An ID leads to its page, and a user to the user's page. If several apps know the user, the page
// offers a choice; if no app does, it says so.
func TestFindLeadsToPageOfIDOrUser(t *testing.T) {
	t.Parallel()
	r := newRig(t, slow, func(o *setting) { o.Work.Apps["mail"] = o.Work.Apps["shop"] })
	r.line("ada", 2)
	r.addLetter(toUser("dead one", "cleo", ""), "payload", time.Now())
	mail := toUser("mail-1", "bob", "")
	mail.App = "mail"
	r.enqueue(mail, toUser("shop-1", "bob", ""))
	find := func(q string) string { return "/console/find?q=" + url.QueryEscape(q) }
	for q, want := range map[string]string{
		"ada-1": "/console/notifications/ada-1", " ada-1\t": "/console/notifications/ada-1", "dead one": "/console/notifications/dead%20one", "ada": "/console/users/ada?app=shop",
	} {
		leads(t, r.get(http.StatusSeeOther, find(q)), want)
	}
	contains(t, r.get(http.StatusOK, find("bob")), "Several apps know", `href="/console/users/bob?app=mail"`, `href="/console/users/bob?app=shop"`)
	contains(t, r.get(http.StatusOK, find("adda")), "Nothing is known", `href="/console/users/adda?app=shop"`)
	contains(t, r.get(http.StatusOK, "/console/find"), "Give the ID")
	for _, bad := range []string{"?q=a&q=b", "?x=1", "?q=" + url.QueryEscape(string(make([]byte, 300)))} {
		r.get(http.StatusBadRequest, "/console/find"+bad)
	}
}
