package console

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
)

// A route is one method of one path.
type route struct {
	method, path string
	// action is the permission that the visitor needs; nil if everyone may make the request,
	// signed in or not.
	action *operate.Action
	// query are the accepted parameters, and form the accepted fields. Any other is rejected.
	query, form []string
	// within bounds the answer's time; 0 for the console's usual.
	within time.Duration
	handle func(*Console, context.Context, *visit) (page, error)
	// serve replaces handle for an answer that is not a page.
	serve func(*Console, http.ResponseWriter, *visit) error
}

const (
	signInPath  = "/console/signin"
	signOutPath = "/console/signout"
)

// refFields identify a notification if several users have its ID.
var refFields = []string{"app", "user"}

// with returns the names followed by more.
func with(names []string, more ...string) []string { return append(slices.Clone(names), more...) }

// routes are all requests that the console answers.
var routes = []route{
	{method: "GET", path: "/console/{$}", action: operate.Look, query: []string{"range", "done", "n"}, handle: (*Console).overviewPage},
	{method: "POST", path: "/console/losses", action: operate.ConfirmLoss, form: []string{"at"}, handle: (*Console).confirmLoss},
	{method: "GET", path: "/console/providers", action: operate.Look, query: []string{"of", "after"}, handle: (*Console).providersPage},

	{method: "GET", path: actionsPath, action: operate.Look, query: []string{"before"}, handle: (*Console).actionsPage},

	{method: "GET", path: "/console/users/{user}", action: operate.Look, query: []string{"app", "category", "span", "from", "sent", "done", "n"}, handle: (*Console).userPage},

	{method: "GET", path: "/console", handle: func(*Console, context.Context, *visit) (page, error) { return page{to: Path}, nil }},
	{method: "GET", path: signInPath, query: []string{"next", "done"}, handle: (*Console).signInPage},
	{method: "POST", path: signInPath, form: []string{"next", "token"}, handle: (*Console).signIn},
	{method: "POST", path: signOutPath, handle: (*Console).signOut},

	{method: "GET", path: "/console/find", action: operate.Look, query: []string{"q"}, handle: (*Console).findPage},
	{method: "GET", path: "/console/notifications/{id}", action: operate.Look, query: with(refFields, "done", "n"), handle: (*Console).notificationPage},
	{method: "POST", path: "/console/notifications/{id}", action: operate.Cancel, query: refFields, form: confirmFields, within: actWithin, handle: (*Console).cancelNotification},

	{method: "GET", path: "/console/waiting", action: operate.Look, query: with(waitingFilter, "cursor", "done", "n"), handle: (*Console).waitingPage},
	{method: "POST", path: "/console/waiting", action: operate.CancelEach, form: with(waitingFilter, "ref", "all", "confirmed", "expect"), within: actWithin, handle: (*Console).cancelWaiting},

	{method: "GET", path: "/console/dead-letters", action: operate.Look, query: with(letterFilter, "cursor", "skip", "done", "n"), handle: (*Console).lettersPage},
	{method: "POST", path: "/console/dead-letters", action: operate.RequeueEach, form: with(letterFilter, "ref", "do", "confirmed", "expect"), within: actWithin, handle: (*Console).actOnLetters},
	{method: "GET", path: "/console/dead-letters/{id}", action: operate.Look, query: refFields, handle: (*Console).letterPage},
	{method: "POST", path: "/console/dead-letters/{id}", action: operate.Requeue, query: refFields, form: with(confirmFields, "do"), within: actWithin, handle: (*Console).actOnLetter},

	{method: "GET", path: "/console/pauses", action: operate.Look, query: []string{"done", "n"}, handle: (*Console).pausesPage},
	{method: "POST", path: "/console/pauses", action: operate.Pause, form: with(pauseFields, "reason", "for", "until", "confirmed", "expect"), within: actWithin, handle: (*Console).beginPause},
	{method: "POST", path: "/console/pauses/end", action: operate.Resume, form: with(pauseFields, "confirmed", "expect"), within: actWithin, handle: (*Console).endPause},

	{method: "GET", path: limitsPath, action: operate.Look, query: []string{"cursor", "done", "n"}, handle: (*Console).limitsPage},
	{method: "GET", path: editPath, action: operate.Look, query: with(levelFields, "done", "n"), handle: (*Console).editLimitsPage},
	{method: "GET", path: previewPath, action: operate.Look, query: with(levelFields, overrideFields...), within: previewWithin, handle: (*Console).previewLimitsPage},
	{method: "POST", path: editPath, action: operate.SetLimit, form: with(slices.Concat(levelFields, overrideFields, confirmFields), "do"), handle: (*Console).changeLimits},
	{method: "POST", path: mutePath, action: operate.Mute, form: with(slices.Concat(levelFields, overrideFields, confirmFields), "do"), within: actWithin, handle: (*Console).changeMute},
	{method: "GET", path: limitsLogPath, action: operate.Look, query: []string{"before", "done", "n"}, handle: (*Console).limitsLogPage},
	{method: "POST", path: limitsLogPath, action: operate.UndoLimit, form: with(confirmFields, "version"), handle: (*Console).undoChange},

	{method: "GET", path: "/console/static/{file}", serve: (*Console).static},
}
