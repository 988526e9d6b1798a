package worker

import (
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
)

// A route is one app's way to one platform: the sender, and what stands before
// it so that its trouble is nobody else's.
type route struct {
	app      string
	platform push.Platform
	sender   providers.Sender
	gate     *gate
	breaker  *breaker
	failures failures
	spike    spike
	queue    comebacks

	// fingerprint answers that of the credentials in use.
	fingerprint func() string

	mu    sync.Mutex
	pause pauseState
	// credential is the fingerprint of those that are known to be in use, and
	// proven says that a push was taken with them.
	credential string
	proven     bool

	// resumed is when an operator had it tried again last, in Unix ms of Redis's
	// clock; negative before it is known.
	resumed int64
	tale    tale
}

// routes by app and platform.
type routes map[string]map[push.Platform]*route

func newRoutes(o *Options) routes {
	all := make(routes, len(o.Senders))
	for app, senders := range o.Senders {
		all[app] = make(map[push.Platform]*route, len(senders))
		for platform, sender := range senders {
			r := &route{
				app: app, platform: platform, sender: sender, gate: newGate(o.Concurrency),
				breaker:     newBreaker(o.times.open, func(open bool) { o.Observer.Breaker(app, platform, open) }),
				fingerprint: func() string { return "" }, resumed: -1,
			}
			if known, ok := sender.(interface{ Fingerprint() string }); ok {
				r.fingerprint = known.Fingerprint
			}
			r.credential = r.fingerprint()
			all[app][platform] = r
		}
	}
	return all
}

// all are the routes, in no order.
func (all routes) all() iter.Seq[*route] {
	return func(yield func(*route) bool) {
		for _, platforms := range all {
			for _, r := range platforms {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// name is the route's in Redis.
func (r *route) name() string { return r.app + "/" + string(r.platform) }

// left is how long the route is closed; 0 when it is open.
func (r *route) left(now time.Time) time.Duration {
	if left := r.pauseLeft(now); left > 0 {
		return left
	}
	return r.breaker.left(now)
}

// allow asks for one push. When it may go, done has to be called with its
// outcome.
func (r *route) allow() (done func(providers.Outcome), ok bool) {
	if r.pauseLeft(time.Now()) > 0 {
		return nil, false
	}
	return r.breaker.allow()
}

// route finds the route of each target. A target without one is rejected; route
// answers whether any is left.
func (h *handler) route(d *delivery) bool {
	app, known := h.routes[d.App]
	d.routes = make([]*route, len(d.Targets))
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
		case known:
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
