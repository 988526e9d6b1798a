package api

import (
	"context"
	"net/http"

	"github.com/pushpace/pushpace/internal/operate"
)

// A route is one method of one path.
type route struct {
	method, path string
	// action is the action that the route performs; nil if it is open to everyone.
	action *operate.Action
	// takes means that the route takes a body.
	takes bool
	// charges means that handle charges the token's rate by the body's items; other routes charge
	// 1.
	charges bool
	// query are the allowed parameters. Any other or repeated parameter is refused, like an
	// unknown field of a body: a typing error would widen the request.
	query []string
	// several is the parameter that may be given several times, if any.
	several string
	handle  func(*API, context.Context, *call) (reply, error)
	// serve replaces handle for an answer that is not our JSON.
	serve func(*API, http.ResponseWriter, *http.Request)
}

var (
	refQuery = []string{"app", "user"} // the owner of the ID
	// cancelQuery has digest, to cancel a carrier with its members.
	cancelQuery   = []string{"app", "user", digest}
	withdrawQuery = []string{"app", "user", "thread", "collapse_key", "category", "digest_key", "cursor"}
	pauseQuery    = []string{"app", "platform", "category", "all"}
	// keyQuery names a level; the next ones name an override by its level.
	keyQuery       = []string{"app", "user", "category"}
	overrideQuery  = []string{"app", "user", "category", "quota", "mute"}
	overridesQuery = []string{"app", "user", "category", "cursor", "limit"}
	previewQuery   = []string{"app", "user", "category", "quota", "remove"}
)

// dryRun is the parameter of a request that is only validated and changes nothing.
const dryRun = "dry_run"

const digest = "digest"

// routes are all routes of the API. openapi.json describes each.
var routes = []route{
	{method: "POST", path: "/v1/notifications", action: operate.Enqueue, takes: true, charges: true, handle: (*API).enqueue},
	{method: "DELETE", path: "/v1/notifications", action: operate.Withdraw, query: withdrawQuery, handle: (*API).withdraw},
	{method: "POST", path: "/v1/notifications:batch", action: operate.Enqueue, takes: true, charges: true, handle: (*API).enqueueBatch},
	{method: "GET", path: "/v1/notifications/{id}", action: operate.Status, query: refQuery, handle: (*API).status},
	{method: "DELETE", path: "/v1/notifications/{id}", action: operate.Cancel, query: cancelQuery, handle: (*API).cancel},

	{method: "GET", path: "/v1/waiting", action: operate.Look, query: waitingQuery, handle: (*API).waitingList},
	{method: "POST", path: "/v1/cancellations", action: operate.CancelEach, takes: true, handle: (*API).cancelEach},

	{method: "GET", path: "/v1/limits", action: operate.Look, query: keyQuery, handle: (*API).limits},
	{method: "GET", path: "/v1/quotas", action: operate.Look, handle: (*API).quotas},

	{method: "GET", path: "/v1/overrides", action: operate.Look, query: overridesQuery, handle: (*API).overrides},
	{method: "PUT", path: "/v1/overrides", action: operate.SetLimit, takes: true, query: overrideQuery, handle: (*API).setOverride},
	{method: "DELETE", path: "/v1/overrides", action: operate.UnsetLimit, query: overrideQuery, handle: (*API).unsetOverride},
	{method: "POST", path: "/v1/overrides/preview", action: operate.Look, takes: true, query: previewQuery, handle: (*API).previewOverride},
	{method: "POST", path: "/v1/overrides/import", action: operate.ImportLimits, takes: true, query: []string{dryRun}, handle: (*API).importOverrides},
	{method: "GET", path: "/v1/overrides/log", action: operate.Look, query: []string{"before", "limit"}, handle: (*API).overridesLog},

	{method: "GET", path: "/v1/users/{user}/timeline", action: operate.Look, query: []string{"app", "category"}, several: "category", handle: (*API).timeline},

	{method: "GET", path: "/v1/dead-letters", action: operate.Look, query: lettersQuery, handle: (*API).letters},
	{method: "GET", path: "/v1/dead-letters/{id}", action: operate.Look, query: refQuery, handle: (*API).letter},
	{method: "POST", path: "/v1/dead-letters/{id}/requeue", action: operate.Requeue, query: refQuery, handle: (*API).requeue},
	{method: "DELETE", path: "/v1/dead-letters/{id}", action: operate.Purge, query: refQuery, handle: (*API).purge},

	{method: "POST", path: "/v1/requeues", action: operate.RequeueEach, takes: true, handle: (*API).requeueEach},

	{method: "POST", path: "/v1/purges", action: operate.PurgeEach, takes: true, handle: (*API).purgeEach},

	{method: "GET", path: "/v1/pauses", action: operate.Look, handle: (*API).pauses},
	{method: "PUT", path: "/v1/pauses", action: operate.Pause, takes: true, query: pauseQuery, handle: (*API).beginPause},
	{method: "DELETE", path: "/v1/pauses", action: operate.Resume, query: pauseQuery, handle: (*API).endPause},

	{method: "GET", path: "/v1/overview", action: operate.Look, handle: (*API).overview},
	{method: "DELETE", path: "/v1/losses", action: operate.ConfirmLoss, query: []string{"at"}, handle: (*API).confirmLoss},
	{method: "GET", path: "/v1/throughput", action: operate.Look, query: []string{"range"}, handle: (*API).throughput},
	{method: "GET", path: "/v1/workers", action: operate.Look, handle: (*API).workers},
	{method: "GET", path: "/v1/actions", action: operate.Look, query: []string{"before", "limit"}, handle: (*API).actions},
	{method: "GET", path: "/v1/audit", action: operate.Look, handle: (*API).audit},

	{method: "GET", path: "/openapi.json", serve: (*API).describe},
}
