// Package route holds an app's routes to its push services, so that a failing provider delays its
// own notifications only. Start with Routes. A route has a bulkhead, which bounds the pushes in
// flight, and a share, which bounds them over all workers. It has a state, open or closed, and a
// quota that all workers share.
//
// Pulls skip jobs of a route without capacity: see Routes.Reserve. The pipeline takes a permit of the
// route's bulkhead, asks Route.Allow for one push, and passes the outcome to Learn. All methods are safe
// for concurrent use, except Routes.Apply and Routes.LogTroubles: only one goroutine may call each.
//
// The invariants:
//
//   - A failing route delays only its own notifications.
//   - After a closing, one push probes the provider before other pushes go. Then each successful push
//     allows one more: see Bulkhead.worked.
//   - Only the function closes decides whether an answer counts against the route or its own token. One
//     answer never closes a route.
package route

import (
	"cmp"
	"iter"
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/pause"
)

// A Route is one app's way to one push service.
type Route struct {
	App string
	// Platform is one of push.Services.
	Platform push.Platform
	Sender   providers.Sender
	Bulkhead *Bulkhead
	parkName string // see push.OnlyRoute
	// Quota is the pool of which a push costs a unit; nil for none.
	Quota *meter.Pool

	share    *Share // nil without a bound over all workers
	state    state
	evidence evidence
	answers  answers
	// fingerprint identifies the credentials in use.
	fingerprint func() string

	// lastTry is when an operator last resumed the route, in Unix ms of Redis's clock; negative before
	// the first Apply. Only Apply's goroutine uses it.
	lastTry int64
	// Only LogTroubles' goroutine uses troubleLog.
	troubleLog troubleLog
}

// An Observer counts events for metrics. A service is one of push.Services.
type Observer interface {
	// Closed means that this worker closed an app's route because of an answer with that reason.
	// A delay that another worker has already shared does not count.
	Closed(app string, service push.Platform, reason providers.Reason)
}

// Config configures Routes. InFlight, Shares, Meter with Quotas and Throughputs, and Times are optional.
type Config struct {
	// Senders by app and platform.
	Senders map[string]map[push.Platform]providers.Sender
	// Concurrency is the maximum of pushes in flight on each route.
	Concurrency int
	// InFlight is the maximum of pushes in flight from all workers, by app and platform; 0 for no
	// bound. Shares divides it among the workers; nil without a bound.
	InFlight map[string]map[push.Platform]int
	Shares   meter.Shares
	Pauses   *pause.Store
	Observer Observer
	Log      *slog.Logger
	// Meter counts the units of Quotas, by app and platform, and of Throughputs, by app and category; nil
	// without quotas and throughputs.
	Meter       meter.Meter
	Quotas      map[string]map[push.Platform]Quota
	Throughputs map[string]map[string]Quota
	// RedisLog logs errors of Redis.
	RedisLog *slog.Logger
	Times
}

// Times are durations that tests shorten.
type Times struct {
	Open   time.Duration // how long failures close a route; 0 for 2 s
	Paused time.Duration // how long the first refusal closes a route; 0 for 30 s
	Calm   time.Duration // how long a route must work before its trouble is logged as over; 0 for 10 s
}

// Routes are the routes of a worker.
type Routes struct {
	Config
	quotas
	all    map[string]map[push.Platform]*Route // by app and push service
	byName map[string]*Route                   // by ParkName
}

// New returns the routes of the senders.
func New(c Config) *Routes {
	c.Times = Times{cmp.Or(c.Open, 2*time.Second), cmp.Or(c.Paused, 30*time.Second), cmp.Or(c.Calm, 10*time.Second)}
	rs := &Routes{Config: c, quotas: newQuotas(&c), all: make(map[string]map[push.Platform]*Route, len(c.Senders)), byName: map[string]*Route{}}
	for app, senders := range c.Senders {
		rs.all[app] = make(map[push.Platform]*Route, len(senders))
		for platform, sender := range senders {
			for _, service := range push.Services(platform) {
				r := rs.route(app, service, sender)
				if n := c.InFlight[app][platform]; n > 0 {
					r.share = newShare(r, c.Shares, n)
				}
				rs.all[app][service], rs.byName[r.parkName] = r, r
			}
		}
	}
	return rs
}

// route returns a new route of the app to the push service. It uses the sender of the platform.
func (rs *Routes) route(app string, service push.Platform, sender providers.Sender) *Route {
	r := &Route{
		App: app, Platform: service, parkName: push.OnlyRoute([]byte(push.OnlyMark(app, service))), Sender: sender, Bulkhead: newBulkhead(rs.Concurrency), Quota: rs.pool(rs.Quotas[app][push.PlatformOf(service)]),
		fingerprint: func() string { return "" }, lastTry: -1,
	}
	r.state.onClose, r.evidence.service = r.Bulkhead.reopen, service
	if known, ok := sender.(interface{ Fingerprint() string }); ok {
		r.fingerprint = known.Fingerprint
	}
	r.state.openFor, r.state.credential = rs.Open, r.fingerprint()
	return r
}

// All returns the routes in no order.
func (rs *Routes) All() iter.Seq[*Route] {
	return func(yield func(*Route) bool) {
		for _, platforms := range rs.all {
			for _, r := range platforms {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Of returns the app's routes by push service; nil for an unknown app.
func (rs *Routes) Of(app string) map[push.Platform]*Route { return rs.all[app] }

// Name returns the route's name in Redis: APP/PLATFORM.
func (r *Route) Name() string { return r.App + "/" + string(r.Platform) }

// Suspect reports whether the route is not open and answers about the target helped to close it.
func (r *Route) Suspect(t push.Target) bool {
	return !r.state.isOpen() && r.evidence.suspects(subjectOf(t, ""))
}

// Credential returns the fingerprint of the credentials in use.
func (r *Route) Credential() string { return r.fingerprint() }
