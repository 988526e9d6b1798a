package worker

import (
	"cmp"
	"errors"
	"slices"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/route"
)

// routing finds the routes of a delivery's targets.
type routing struct {
	*Options
	routes *route.Routes
}

// find finds the route of each open target, and rejects targets without one. It reports whether any
// target is left.
func (r routing) find(d *delivery) bool {
	app := r.routes.Of(d.App)
	d.routes = make([]*route.Route, len(d.Targets))
	d.throughput = r.routes.Throughput(d.App, d.Category)
	d.metered = d.throughput != nil
	refused := r.refuses(d)
	some := false
	for i, target := range d.Targets {
		if !d.outcomes[i].open() { // settled by an earlier visit
			continue
		}
		switch to, ok := app[target.Service()]; {
		case refused:
			d.reject(i, providers.UnknownCategory, errUnknownCategory)
		case ok:
			d.routes[i], some = to, true
			d.metered = d.metered || to.Quota != nil
		case app != nil:
			d.reject(i, providers.NoProvider, errNoProvider)
		default:
			d.reject(i, providers.UnknownApp, errUnknownApp)
		}
	}
	return some
}

func (d *delivery) reject(i int, reason providers.Reason, err error) {
	d.outcomes[i] = outcome{Outcome: providers.Outcome{
		Kind: providers.Rejected, Reason: reason, Concerns: providers.ConcernsMessage, Ambiguous: d.outcomes[i].Ambiguous, Err: err,
	}}
}

var (
	errUnknownApp      = errors.New("the configuration has no such app")
	errNoProvider      = errors.New("the app has no provider for the target's platform")
	errUnknownCategory = errors.New("the configuration has no such category, and limits.unknown_category refuses it")
)

// refuses reports whether the delivery's category is unknown and the configuration refuses unknown
// categories. It logs an unknown category, which may be mistyped.
func (r routing) refuses(d *delivery) bool {
	unknown := r.Limits.Unknown(d.Category)
	if unknown == limits.AllowUnknown {
		return false
	}
	if d.returnedAt.IsZero() { // its first visit
		r.Observer.UnknownCategory()
		if r.Limits.FirstUnknown(d.Category) {
			r.Log.Warn("notifications have a category that is not configured, and that has no limits of its own",
				"category", d.Category, "app", d.App, "unknown_category", string(unknown))
		}
	}
	return unknown == limits.RefuseUnknown
}

// bulkheads returns the bulkheads of the due targets, without duplicates. The order is the same for
// all deliveries, to prevent deadlocks.
func (d *delivery) bulkheads() []*route.Bulkhead {
	var through []*route.Route
	for i, r := range d.routes {
		if r != nil && d.outcomes[i].due() && !slices.Contains(through, r) {
			through = append(through, r)
		}
	}
	slices.SortFunc(through, func(a, b *route.Route) int { return cmp.Compare(a.Platform, b.Platform) })
	needed := make([]*route.Bulkhead, len(through))
	for i, r := range through {
		needed[i] = r.Bulkhead
	}
	return needed
}
