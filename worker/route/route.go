// Package route is an app's way to a push service, and what stands on it so that one trouble stays one
// trouble: a bulkhead, which bounds what is in flight, and a share, where all workers are bounded
// together; a state, by which it is open or closed; and its quota, which all workers share.
//
// What a route has no room for is not pulled: Routes.Reserve tells each pull. The pipeline takes a place
// in the route's bulkhead, asks to be allowed one push, and hands the outcome to Learn. All methods
// are safe for concurrent use, but for Routes.Apply and Routes.LogTroubles, of which each is one
// goroutine's.
//
// The invariants:
//
//   - A route's trouble delays the notifications for that route only.
//   - After every closing one push shows whether the provider takes it before the others go. Then
//     as many more go as pushes work: see Bulkhead.worked.
//   - One function, closes, decides whether an answer is the route's trouble or that of
//     its own token. One answer never closes a route.
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
	only     string // see push.OnlyRoute
	// Quota is what a push costs a unit of; nil for nothing.
	Quota *meter.Pool

	share    *Share // nil where the workers are not bounded together
	state    state
	evidence evidence
	answers  answers
	// fingerprint returns that of the credentials in use.
	fingerprint func() string

	// Of the goroutine that calls Apply: when an operator had it tried again last, in
	// Unix ms of Redis's clock; negative before it is known.
	tried int64
	// Of the one that calls LogTroubles.
	tale tale
}

// An Observer is told what happens, for metrics. A service is one of push.Services.
type Observer interface {
	// Closed: this worker has closed an app's way to a push service, for the reason of what was
	// answered. A delay that another worker has shared before does not count.
	Closed(app string, service push.Platform, reason providers.Reason)
}

// Config says what Routes work with. All but InFlight, Shares, the Meter and what it
// counts, and the times is required.
type Config struct {
	// Senders by app and platform.
	Senders map[string]map[push.Platform]providers.Sender
	// Concurrency is how many pushes are in flight at once on each route.
	Concurrency int
	// InFlight is how many are from all workers together to each push service, by app and
	// platform, 0 for no bound, and Shares divides them among the workers; nil without a bound.
	InFlight map[string]map[push.Platform]int
	Shares   meter.Shares
	Pauses   *pause.Store
	Observer Observer
	Log      *slog.Logger
	// Meter counts what the Quotas, by app and platform, and the Throughputs, by app
	// and category, allow; nil for no such.
	Meter       meter.Meter
	Quotas      map[string]map[push.Platform]Quota
	Throughputs map[string]map[string]Quota
	// RedisLog is told what fails for want of Redis.
	RedisLog *slog.Logger
	Times
}

// Times are how long things take that tests have no time for.
type Times struct {
	Open   time.Duration // that trouble closes a route; 0 for 2 s
	Paused time.Duration // that the first refusal closes it; 0 for 30 s
	Calm   time.Duration // that a provider has to work for its trouble to be over; 0 for 10 s
}

// Routes are all of a worker's.
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
				rs.all[app][service], rs.byName[r.only] = r, r
			}
		}
	}
	return rs
}

// route returns the app's to the push service, through the sender of its platform.
func (rs *Routes) route(app string, service push.Platform, sender providers.Sender) *Route {
	r := &Route{
		App: app, Platform: service, only: push.OnlyRoute([]byte(push.OnlyMark(app, service))), Sender: sender, Bulkhead: newBulkhead(rs.Concurrency), Quota: rs.pool(rs.Quotas[app][push.PlatformOf(service)]),
		fingerprint: func() string { return "" }, tried: -1,
	}
	r.state.closes = r.Bulkhead.reopen
	if known, ok := sender.(interface{ Fingerprint() string }); ok {
		r.fingerprint = known.Fingerprint
	}
	r.state.openFor, r.state.credential = rs.Open, r.fingerprint()
	return r
}

// All are the routes, in no order.
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

// Of returns the app's routes by push service; nil for an app that is not known.
func (rs *Routes) Of(app string) map[push.Platform]*Route { return rs.all[app] }

// Name is the route's in Redis: APP/PLATFORM.
func (r *Route) Name() string { return r.App + "/" + string(r.Platform) }

// Suspect reports whether the route is being tried, and the target is one of those whose answers
// have closed it.
func (r *Route) Suspect(t push.Target) bool {
	return !r.state.isOpen() && r.evidence.suspects(subjectOf(t, ""))
}

// Credential is the fingerprint of what the route sends with.
func (r *Route) Credential() string { return r.fingerprint() }
