package api

import (
	"context"
	"net/http"

	"github.com/pushpace/pushpace/internal/config"
)

// A route is one method of one path.
type route struct {
	method, path string
	// roles may use it; nil is everyone, without a token.
	roles []config.Role
	// takes says that it takes a body.
	takes bool
	// charges says that handle charges for what the body holds; the others are charged for
	// one each.
	charges bool
	// query are the parameters that it takes. Where there are any, another is
	// refused, as an unknown field of a body is: misspelt, it would widen what is
	// asked for. So is one that is given twice.
	query []string
	// several is the parameter that may be given several times, if any.
	several string
	handle  func(*API, context.Context, *call) (reply, error)
	// serve, in the place of handle, answers what is no JSON of ours.
	serve func(*API, http.ResponseWriter, *http.Request)
}

var (
	producers = []config.Role{config.Producer, config.Operator}
	// watchers look at notifications.
	watchers  = []config.Role{config.Producer, config.Viewer, config.Operator}
	viewers   = []config.Role{config.Viewer, config.Operator}
	operators = []config.Role{config.Operator}

	appQuery   = []string{"app"}
	pauseQuery = []string{"app", "platform", "category", "all"}
)

// routes are all that the API answers. openapi.json describes each.
var routes = []route{
	{method: "POST", path: "/v1/notifications", roles: producers, takes: true, charges: true, handle: (*API).enqueue},
	{method: "POST", path: "/v1/notifications:batch", roles: producers, takes: true, charges: true, handle: (*API).enqueueBatch},
	{method: "GET", path: "/v1/notifications/{id}", roles: watchers, handle: (*API).status},
	{method: "DELETE", path: "/v1/notifications/{id}", roles: producers, handle: (*API).cancel},

	{method: "GET", path: "/v1/waiting", roles: viewers, query: waitingQuery, handle: (*API).waitingList},
	{method: "POST", path: "/v1/cancellations", roles: operators, takes: true, handle: (*API).cancelEach},

	{method: "GET", path: "/v1/limits", roles: viewers, query: []string{"cursor", "limit"}, handle: (*API).limits},
	{method: "GET", path: "/v1/limits/log", roles: viewers, query: []string{"before", "limit"}, handle: (*API).limitsLog},
	{method: "POST", path: "/v1/limits/preview", roles: viewers, takes: true, handle: (*API).previewLimit},
	{method: "GET", path: "/v1/limits/apps/{app}", roles: viewers, handle: (*API).limit},
	{method: "PUT", path: "/v1/limits/apps/{app}", roles: operators, takes: true, handle: (*API).setLimit},
	{method: "DELETE", path: "/v1/limits/apps/{app}", roles: operators, handle: (*API).unsetLimit},
	{method: "GET", path: "/v1/limits/users/{user}", roles: viewers, query: appQuery, handle: (*API).limit},
	{method: "PUT", path: "/v1/limits/users/{user}", roles: operators, takes: true, query: appQuery, handle: (*API).setLimit},
	{method: "DELETE", path: "/v1/limits/users/{user}", roles: operators, query: appQuery, handle: (*API).unsetLimit},
	{method: "GET", path: "/v1/limits/users/{user}/categories/{category}", roles: viewers, query: appQuery, handle: (*API).limit},
	{method: "PUT", path: "/v1/limits/users/{user}/categories/{category}", roles: operators, takes: true, query: appQuery, handle: (*API).setLimit},
	{method: "DELETE", path: "/v1/limits/users/{user}/categories/{category}", roles: operators, query: appQuery, handle: (*API).unsetLimit},
	{method: "GET", path: "/v1/limits/categories/{category}", roles: viewers, query: appQuery, handle: (*API).limit},
	{method: "PUT", path: "/v1/limits/categories/{category}", roles: operators, takes: true, query: appQuery, handle: (*API).setLimit},
	{method: "DELETE", path: "/v1/limits/categories/{category}", roles: operators, query: appQuery, handle: (*API).unsetLimit},
	{method: "GET", path: "/v1/limits/quotas", roles: viewers, handle: (*API).quotas},
	{method: "PUT", path: "/v1/limits/quotas/{quota}", roles: operators, takes: true, handle: (*API).setLimit},
	{method: "DELETE", path: "/v1/limits/quotas/{quota}", roles: operators, handle: (*API).unsetLimit},

	{method: "GET", path: "/v1/users/{user}/timeline", roles: viewers, query: []string{"app", "category"}, several: "category", handle: (*API).timeline},

	{method: "GET", path: "/v1/dead-letters", roles: viewers, query: []string{"cursor", "limit"}, handle: (*API).letters},
	{method: "GET", path: "/v1/dead-letters/{id}", roles: viewers, handle: (*API).letter},
	{method: "POST", path: "/v1/dead-letters/{id}/requeue", roles: operators, handle: (*API).requeue},
	{method: "DELETE", path: "/v1/dead-letters/{id}", roles: operators, handle: (*API).purge},

	{method: "POST", path: "/v1/requeues", roles: operators, takes: true, handle: (*API).requeueEach},

	{method: "GET", path: "/v1/pauses", roles: viewers, handle: (*API).pauses},
	{method: "PUT", path: "/v1/pauses", roles: operators, takes: true, query: pauseQuery, handle: (*API).beginPause},
	{method: "DELETE", path: "/v1/pauses", roles: operators, query: pauseQuery, handle: (*API).endPause},

	{method: "GET", path: "/v1/overview", roles: viewers, handle: (*API).overview},
	{method: "GET", path: "/v1/workers", roles: viewers, handle: (*API).workers},
	{method: "GET", path: "/v1/audit", roles: viewers, handle: (*API).audit},

	{method: "GET", path: "/openapi.json", serve: (*API).describe},
}
