package route

import (
	"context"
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
)

// Learn adds the outcome of a push to the target, sent with the credentials of that fingerprint.
// It returns the outcome to act on, and its meaning for the route.
func (rs *Routes) Learn(ctx context.Context, r *Route, t push.Target, o providers.Outcome, credential string) (providers.Outcome, Lesson) {
	ofCredential := o.Kind == providers.Misconfigured || o.Kind == providers.Retry && o.Concerns == providers.ConcernsCredential
	if ofCredential && credential != r.state.inUse() {
		return alone(o), Lesson{} // the push was sent with the previous credentials
	}
	now, c := time.Now(), classOf(&o)
	if r.Platform == push.WebPushOther && (c == lost || c == throttled) {
		c = message // the route leads to many independent hosts
	}
	about := subject(0) // computed for refusals only
	if c > message {
		about = subjectOf(t, o.Topic)
	}
	lesson := r.evidence.take(now, &o, c, about, r.state.isOpen())
	if lesson.shows != unclear {
		r.Bulkhead.worked(lesson.shows == works)
	}
	switch {
	case !lesson.Trouble && c == refused:
		o = alone(o)
	case lesson.Trouble:
		if c == lost {
			o = spikeOf(r.Platform, o)
		}
		rs.close(ctx, r, now, o)
	}
	return o, lesson
}

// alone returns the outcome of a push that waits without closing the route. A delay that a provider
// asks for because of a key does not apply to one device token.
func alone(o providers.Outcome) providers.Outcome {
	if o.Concerns == providers.ConcernsCredential {
		o.RetryAfter = 0
	}
	return o
}

// close closes the route for its trouble, and reports it to the Observer.
func (rs *Routes) close(ctx context.Context, r *Route, now time.Time, o providers.Outcome) {
	c, news := r.state.fail(now, &o, rs.Paused)
	if news && (!c.shared || rs.share(ctx, r, c)) {
		rs.Observer.Closed(r.App, r.Platform, o.Reason)
	}
}

// share shares the provider's delay with the app's other routes to the same server, and with the other
// workers. It reports whether no delay of at least that length was shared before for the route.
func (rs *Routes) share(ctx context.Context, r *Route, c closing) bool {
	first := rs.shareOne(ctx, r, c)
	for _, other := range rs.sameServer(r) {
		if other.state.adopt(time.Now(), c) {
			other.evidence.adoptDelay()
		}
		rs.shareOne(ctx, other, c)
	}
	return first
}

func (rs *Routes) shareOne(ctx context.Context, r *Route, c closing) (first bool) {
	first, err := rs.Pauses.Share(ctx, pause.Pause{App: r.App, Platform: r.Platform, Reason: string(c.reason), Error: c.err, Until: c.until})
	if err != nil {
		rs.RedisLog.LogAttrs(ctx, slog.LevelWarn, "a provider's delay could not be shared with the other workers", slog.String("app", r.App), slog.String("platform", string(r.Platform)), slog.Any("error", err))
	}
	return first || err != nil
}

// sameServer returns the app's other routes to the server of r: FCM's tokens and FIDs share a server, a
// project and its quota.
func (rs *Routes) sameServer(r *Route) (others []*Route) {
	if push.PlatformOf(r.Platform) != push.FCM {
		return nil
	}
	for _, service := range push.Services(push.FCM) {
		if service != r.Platform {
			others = append(others, rs.all[r.App][service])
		}
	}
	return others
}

// Renew notes the credentials in use. It resumes a route with new credentials.
func (rs *Routes) Renew() {
	for r := range rs.All() {
		if r.state.renew(r.fingerprint()) {
			r.evidence.reset()
		}
	}
}

// Apply applies the pauses in force, read at the instant asked, to every route.
func (rs *Routes) Apply(ctx context.Context, in *pause.InForce, asked time.Time) {
	shared := make(map[string]closing, len(in.Providers))
	for _, p := range in.Providers {
		shared[p.Route()] = closing{p.Until, providers.Reason(p.Reason), p.Error, true}
	}
	for r := range rs.All() {
		if r.state.follow(time.Now(), in.On(asked, r.App, r.Platform, ""), shared[r.Name()]) {
			r.evidence.adoptDelay()
		}
		rs.resume(ctx, r, in.Tried[r.Name()])
	}
}

// resume resumes a route if an operator has ended its pauses since the last call.
func (rs *Routes) resume(ctx context.Context, r *Route, last pause.Try) {
	news := r.lastTry >= 0 && last.At > r.lastTry
	r.lastTry = max(r.lastTry, last.At)
	if news {
		r.state.resume()
		r.evidence.reset()
		rs.Log.LogAttrs(ctx, slog.LevelInfo, "an operator resumed the app's provider", slog.String("app", r.App), slog.String("platform", string(r.Platform)), slog.String("by", last.By))
	}
}
