package console

import (
	"context"
	"net/http"
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

// routes are all that the console answers.
var routes = []route{
	{method: "GET", path: "/console/{$}", roles: viewers, query: []string{"done", "n"}, handle: (*Console).overviewPage},

	{method: "GET", path: "/console/live", roles: viewers, query: []string{"app", "category", "what"}, handle: (*Console).livePage},

	{method: "GET", path: "/console/users/{user}", roles: viewers, query: []string{"app", "category", "span", "from", "sent", "done", "n"}, handle: (*Console).userPage},

	{method: "GET", path: "/console", handle: func(*Console, context.Context, *visit) (page, error) { return page{to: Path}, nil }},
	{method: "GET", path: signInPath, query: []string{"next", "done"}, handle: (*Console).signInPage},
	{method: "POST", path: signInPath, form: []string{"next", "token"}, handle: (*Console).signIn},
	{method: "POST", path: signOutPath, handle: (*Console).signOut},

	{method: "GET", path: "/console/notifications/{id}", roles: viewers, query: []string{"done", "n"}, handle: (*Console).notificationPage},
	{method: "POST", path: "/console/notifications/{id}", roles: operators, form: confirmFields, within: actWithin, handle: (*Console).cancelNotification},

	{method: "GET", path: "/console/static/{file}", serve: (*Console).static},
}
