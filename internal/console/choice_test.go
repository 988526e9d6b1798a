package console

import (
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/operate/operatetest"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// The page of an ID that several users have links to each one's, on which is acted on that
// user's alone.
func TestChoiceOfAnID(t *testing.T) {
	t.Parallel()
	client := redistest.Own(t)
	r := newRigOn(t, client, func(s *setting) { operatetest.Divide(&s.Work, 8) })
	ada, ben := toUser("same", "ada", "news"), toUser("same", "ben", "news")
	for shard.Of(8, ben.App, ben.User) == shard.Of(8, ada.App, ada.User) {
		ben.User += "n"
	}
	r.enqueue(ada, ben)
	of := func(n *push.Notification) string { return "?" + url.Values{"app": {n.App}, "user": {n.User}}.Encode() }
	const page = "/console/notifications/same"
	// shows has a page of that status, which shows the texts: a shard may be silent for a
	// while on a busy machine.
	shows := func(want int, path string, texts ...string) {
		t.Helper()
		eventually.Holds(t, path+" shows all", func() bool {
			browser := *r
			answer := browser.send(httptest.NewRequest(http.MethodGet, path, nil))
			text, _ := io.ReadAll(answer.Body)
			return answer.StatusCode == want && !slices.ContainsFunc(texts, func(one string) bool { return !strings.Contains(string(text), html.EscapeString(one)) })
		})
	}
	shows(http.StatusOK, "/console/waiting", "2 wait.", page+of(ada), page+of(ben), selectable("same", "shop", ben.User))
	shows(http.StatusConflict, page, page+of(ada), page+of(ben))
	shows(http.StatusOK, page+of(ben), "User", ben.User)
	r.post(http.StatusSeeOther, page+of(ben), url.Values{"confirmed": {"yes"}})
	shows(http.StatusOK, page+of(ben), "It was cancelled")
	to := r.post(http.StatusSeeOther, "/console/waiting", url.Values{"ref": {selectable("same", "shop", "ada")}, "confirmed": {"yes"}, "expect": {"1"}})
	shows(http.StatusOK, to, "1 cancelled.", "Nothing waits.")
}
