package console

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/trail"
	"github.com/pushpace/pushpace/throttle/limits"
)

// act leaves an entry in the trail.
func (r *rig) act(e trail.Entry) {
	r.t.Helper()
	must(r.t, trail.New(r.client, "").Add(r.t.Context(), e))
}

// Who did what is shown, the newest first, page by page.
func TestActionsPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens)
	operator, viewer := r.as(operatorToken), r.as(viewerToken)
	contains(t, viewer.get(http.StatusOK, actionsPath), "No action is kept.")
	asked := operator.post(http.StatusOK, Path+"pauses", url.Values{"app": {"shop"}, "category": {"news"}, "until": {"2050-12-24T20:00:00Z"}, "reason": {"a new certificate"}})
	operator.post(http.StatusSeeOther, Path+"pauses", hidden(t, asked))
	text := viewer.get(http.StatusOK, actionsPath)
	contains(t, text, "<td>paused</td>", "app shop, category news until <time datetime=\"2050-12-24T20:00:00Z\">2050-12-24 20:00:00.000 UTC</time>: <bdi>a new certificate</bdi>", "<td><bdi>ada</bdi></td>")
	lacks(t, text, "Older actions")
	for i := range 2*rowsOfActions - 1 {
		r.act(trail.Entry{By: "eve", Action: trail.Cancel, Level: limits.Level{App: "shop"}, ID: fmt.Sprintf("n-%d", i), Count: 1})
	}
	older := regexp.MustCompile(`<a href="([^"]*)">Older actions`)
	for pages, at := 0, actionsPath; ; pages++ {
		text := viewer.get(http.StatusOK, at)
		if pages == 2 {
			contains(t, text, "No action is kept that is older than these.")
			break
		}
		if n := strings.Count(text, "<tr><td>"); n != rowsOfActions {
			t.Errorf("page %d has %d rows", pages, n)
		}
		if pages == 0 {
			contains(t, text, "notification n-198, app shop")
		} else {
			contains(t, text, "notification n-98, app shop", "<td>paused</td>")
		}
		at = older.FindStringSubmatch(text)[1]
	}
	viewer.get(http.StatusBadRequest, actionsPath+"?before=x")
	viewer.get(http.StatusBadRequest, actionsPath+"?before=0-0")
}

// What many were acted on is said as one number.
func TestActionsInWords(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.act(trail.Entry{By: "eve", Action: trail.Purge, Apps: []string{"mail", "שלום"}, Count: 12345})
	r.act(trail.Entry{By: "eve", Action: trail.Resume, Count: 1, Until: time.Time{}})
	contains(t, r.get(http.StatusOK, actionsPath), "<td>purged</td><td>dead letters, apps mail and <bdi>שלום</bdi></td><td class=\"num\">12,345</td>", "<td>resumed</td><td>everything</td>")
}
