package console

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/config"
)

// A route is one method of one path.
type route struct {
	method, path string
	// roles may use it; nil is everyone, signed in or not.
	roles []config.Role
	// query are the parameters that it takes, and form the fields. Another is refused.
	query, form []string
	// within is how long the answer may take; 0 for the usual.
	within time.Duration
	handle func(*Console, context.Context, *visit) (page, error)
	// serve, in the place of handle, answers what is no page.
	serve func(*Console, http.ResponseWriter, *visit) error
}

const (
	signInPath  = "/console/signin"
	signOutPath = "/console/signout"
)

var (
	viewers   = []config.Role{config.Viewer, config.Operator}
	operators = []config.Role{config.Operator}
)

// with are the names, and some more.
func with(names []string, more ...string) []string { return append(slices.Clone(names), more...) }

// routes are all that the console answers.
var routes = []route{
	{method: "GET", path: "/console/{$}", roles: viewers, query: []string{"done", "n"}, handle: (*Console).overviewPage},
	{method: "GET", path: "/console/providers", roles: viewers, query: []string{"of", "after"}, handle: (*Console).providersPage},
	{method: "GET", path: "/console/config", roles: viewers, handle: (*Console).configPage},

	{method: "GET", path: "/console/live", roles: viewers, query: []string{"app", "category", "what"}, handle: (*Console).livePage},

	{method: "GET", path: "/console/users/{user}", roles: viewers, query: []string{"app", "category", "span", "from", "sent", "done", "n"}, handle: (*Console).userPage},

	{method: "GET", path: "/console", handle: func(*Console, context.Context, *visit) (page, error) { return page{to: Path}, nil }},
	{method: "GET", path: signInPath, query: []string{"next", "done"}, handle: (*Console).signInPage},
	{method: "POST", path: signInPath, form: []string{"next", "token"}, handle: (*Console).signIn},
	{method: "POST", path: signOutPath, handle: (*Console).signOut},

	{method: "GET", path: "/console/find", roles: viewers, query: []string{"q"}, handle: (*Console).findPage},
	{method: "GET", path: "/console/notifications/{id}", roles: viewers, query: []string{"done", "n"}, handle: (*Console).notificationPage},
	{method: "POST", path: "/console/notifications/{id}", roles: operators, form: confirmFields, within: actWithin, handle: (*Console).cancelNotification},

	{method: "GET", path: "/console/waiting", roles: viewers, query: with(waitingFilter, "cursor", "done", "n"), handle: (*Console).waitingPage},
	{method: "POST", path: "/console/waiting", roles: operators, form: with(waitingFilter, "id", "all", "confirmed", "expect"), within: actWithin, handle: (*Console).cancelWaiting},

	{method: "GET", path: "/console/dead-letters", roles: viewers, query: with(letterFilter, "cursor", "skip", "done", "n"), handle: (*Console).lettersPage},
	{method: "POST", path: "/console/dead-letters", roles: operators, form: with(letterFilter, "id", "all", "do", "confirmed", "expect"), within: actWithin, handle: (*Console).actOnLetters},
	{method: "GET", path: "/console/dead-letters/{id}", roles: viewers, handle: (*Console).letterPage},
	{method: "POST", path: "/console/dead-letters/{id}", roles: operators, form: with(confirmFields, "do"), within: actWithin, handle: (*Console).actOnLetter},

	{method: "GET", path: "/console/pauses", roles: viewers, query: []string{"done", "n"}, handle: (*Console).pausesPage},
	{method: "POST", path: "/console/pauses", roles: operators, form: with(pauseFields, "reason", "for", "until", "confirmed", "expect"), within: actWithin, handle: (*Console).beginPause},
	{method: "POST", path: "/console/pauses/end", roles: operators, form: with(pauseFields, "confirmed", "expect"), within: actWithin, handle: (*Console).endPause},

	{method: "GET", path: limitsPath, roles: viewers, query: []string{"cursor", "done", "n"}, handle: (*Console).limitsPage},
	{method: "GET", path: editPath, roles: viewers, query: with(levelFields, "done", "n"), handle: (*Console).editLimitsPage},
	{method: "GET", path: previewPath, roles: viewers, query: with(levelFields, policyFields...), within: previewWithin, handle: (*Console).previewLimitsPage},
	{method: "POST", path: editPath, roles: operators, form: with(slices.Concat(levelFields, policyFields, confirmFields), "do"), handle: (*Console).changeLimits},
	{method: "GET", path: limitsLogPath, roles: viewers, query: []string{"before", "done", "n"}, handle: (*Console).limitsLogPage},
	{method: "POST", path: limitsLogPath, roles: operators, form: with(confirmFields, "version"), handle: (*Console).undoChange},

	{method: "GET", path: "/console/static/{file}", serve: (*Console).static},
}
