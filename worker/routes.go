package worker

import (
	"errors"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/route"
)

// findRoutes finds the route of each target. A target without one is rejected; it
// reports whether any is left.
func (h *handler) findRoutes(d *delivery) bool {
	app := h.routes.Of(d.App)
	d.routes = make([]*route.Route, len(d.Targets))
	refused := h.refuses(d)
	some := false
	for i, target := range d.Targets {
		if !d.outcomes[i].open() { // settled by an earlier visit
			continue
		}
		switch r, ok := app[target.Platform]; {
		case refused:
			d.reject(i, providers.UnknownCategory, errUnknownCategory)
		case ok:
			d.routes[i], some = r, true
		case app != nil:
			d.reject(i, providers.NoProvider, errNoProvider)
		default:
			d.reject(i, providers.UnknownApp, errUnknownApp)
		}
	}
	return some
}

// reject rejects a target that there is no route for, or none that it may take.
func (d *delivery) reject(i int, reason providers.Reason, err error) {
	d.outcomes[i] = tell(providers.Outcome{
		Kind: providers.Rejected, Reason: reason, Concerns: providers.ConcernsMessage, Ambiguous: d.outcomes[i].Ambiguous, Err: err,
	})
}

var (
	errUnknownApp      = errors.New("the configuration has no such app")
	errNoProvider      = errors.New("the app has no provider for the target's platform")
	errUnknownCategory = errors.New("the configuration has no such category, and limits.unknown_category refuses it")
)

// refuses looks at the category: one that the configuration does not have may be
// mistyped, and is told of or refused.
func (h *handler) refuses(d *delivery) bool {
	unknown := h.Limits.Unknown(d.Category)
	if unknown == limits.AllowUnknown {
		return false
	}
	if d.back.IsZero() { // its first visit
		h.Observer.UnknownCategory()
		if h.Limits.FirstUnknown(d.Category) {
			h.Log.Warn("notifications are of a category that the configuration does not have: it has no limits of its own",
				"category", d.Category, "app", d.App, "unknown_category", string(unknown))
		}
	}
	return unknown == limits.RefuseUnknown
}
