package console

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"github.com/pushpace/pushpace/internal/operate/auditlog"
	"github.com/pushpace/pushpace/throttle/limits"
)

// act adds an entry to the audit log.
func (r *rig) act(e auditlog.Entry) {
	r.t.Helper()
	must(r.t, auditlog.New(r.client, "").Add(r.t.Context(), e))
}

// The page lists actions with their operators, newest first, in pages.
func TestActionsPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens)
	operator, viewer := r.as(operatorToken), r.as(viewerToken)
	contains(t, viewer.get(http.StatusOK, actionsPath), "No action is kept.")
	asked := operator.post(http.StatusOK, Path+"pauses", url.Values{"app": {"shop"}, "category": {"news"}, "until": {"2050-12-24T20:00:00Z"}, "reason": {"a new certificate"}})
	operator.post(http.StatusSeeOther, Path+"pauses", hidden(t, asked))
	text := viewer.get(http.StatusOK, actionsPath)
	contains(t, text, "<td>paused</td>", "app shop, category news until <time datetime=\"2050-12-24T20:00:00Z\">2050-12-24 20:00:00.000 UTC</time>: a new certificate", "<td><bdi>ada</bdi></td>")
	lacks(t, text, "Older actions")
	for i := range rowsOfActions - 1 {
		r.act(auditlog.Entry{By: "eve", Action: auditlog.Cancel, Level: limits.Level{App: "shop"}, ID: fmt.Sprintf("n-%d", i), Count: 1})
	}
	r.act(auditlog.Entry{By: "eve", Action: auditlog.Purge, Count: 12345})
	text = viewer.get(http.StatusOK, actionsPath)
	contains(t, text, "notification n-98, app shop", `<td class="num">12,345</td>`)
	lacks(t, text, "<td>paused</td>")
	older := regexp.MustCompile(`<a href="([^"]*)">Older actions`).FindStringSubmatch(text)
	contains(t, viewer.get(http.StatusOK, older[1]), "<td>paused</td>")
	viewer.get(http.StatusBadRequest, actionsPath+"?before=x")
}
