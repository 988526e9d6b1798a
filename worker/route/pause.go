package route

import (
	"context"
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/pause"
)

const (
	// longestPause bounds the pauses for misconfiguration, which double.
	longestPause = 5 * time.Minute
	// A delay that a provider asks for is a pause when it is longer than this:
	// shorter ones are over before the other workers know.
	leastPause = time.Second
	// Of a delay after a failure of the provider itself, that much may be the
	// sender's own: FCM's answers are given at least 10 s.
	failureWait = 10 * time.Second
)

// pauseFor is how long an outcome that is the route's trouble keeps the app from sending to
// the platform at all; 0 for not. level counts the pauses for misconfiguration just before,
// and first is the length of the first of them.
func pauseFor(o providers.Outcome, level int, first time.Duration) time.Duration {
	switch {
	case o.Kind == providers.Misconfigured:
		return min(first<<min(level, 20), longestPause)
	case o.Concerns == providers.ConcernsProvider && o.RetryAfter <= failureWait, o.RetryAfter <= leastPause:
		return 0
	}
	return o.RetryAfter
}

// A pauseState is what one worker knows of a route's pause.
type pauseState struct {
	pause.Pause
	on  bool // it has begun; it may be over
	own bool // this worker has begun it
	// local says that the other workers may not know of it yet, or do not believe
	// it, and since is when they were told.
	local bool
	since time.Time
}

func (s *pauseState) left(now time.Time) time.Duration {
	if !s.on {
		return 0
	}
	return max(0, s.Left(now))
}

// pauseLeft is how long the route's pause lasts; 0 when it has none.
func (r *Route) pauseLeft(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pause.left(now)
}

// Learn adds the outcome of a push to the target, sent with the credentials of that
// fingerprint. It returns the outcome to act on, and its meaning for the route.
func (rs *Routes) Learn(ctx context.Context, r *Route, t push.Target, o providers.Outcome, credential string) (providers.Outcome, Lesson) {
	ofCredential := o.Kind == providers.Misconfigured || o.Kind == providers.Retry && o.Concerns == providers.ConcernsCredential
	if ofCredential && credential != r.inUse() {
		return alone(o), Lesson{} // it was sent with those before
	}
	now, c := time.Now(), classOf(&o)
	if r.Platform == push.WebPushOther && (c == lost || c == throttled) {
		c = message // of many hosts, of which none says anything of the others
	}
	about := subject(0) // a hash, which only refusals need
	if c > message {
		about = subjectOf(t, o.Topic)
	}
	lesson := r.evidence.take(now, &o, c, about, !r.breaker.isOpen())
	if lesson.shows != nothingYet {
		r.Bulkhead.worked(lesson.shows == works)
	}
	switch {
	case c == delivered:
		r.worked(now)
	case !lesson.Trouble && c == refused:
		o = alone(o)
	case lesson.Trouble:
		if c == lost {
			o = spikeOf(o)
		}
		rs.close(ctx, r, now, o, credential)
	}
	return o, lesson
}

// close closes the route for its trouble: for as long as the outcome asks for, or until a
// probe is taken.
func (rs *Routes) close(ctx context.Context, r *Route, now time.Time, o providers.Outcome, credential string) {
	p, begins := r.begin(now, o, rs.Paused, credential)
	if !begins {
		r.breaker.trip(true)
		return
	}
	if first := rs.share(ctx, r, p); first && r.slows() && o.Kind == providers.Retry && o.Concerns == providers.ConcernsApp {
		r.Quota.Slow()
	}
}

// alone is the outcome of a push that waits alone. A delay that the provider asks for
// because of a key does not apply to one token.
func alone(o providers.Outcome) providers.Outcome {
	if o.Concerns == providers.ConcernsCredential {
		o.RetryAfter = 0
	}
	return o
}

// leastGain is by how much a delay has to outlast the pause under way to be a
// longer one: answers that come together ask for the same.
const leastGain = time.Second

// begin pauses the route if the outcome asks for it, and no pause for as long is
// under way.
func (r *Route) begin(now time.Time, o providers.Outcome, first time.Duration, credential string) (pause.Pause, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	length, left := pauseFor(o, r.pause.Level, first), r.pause.left(now)
	misconfigured := o.Kind == providers.Misconfigured
	switch {
	case length == 0, left > 0 && (misconfigured || length < left+leastGain):
		return pause.Pause{}, false
	case !misconfigured && o.Concerns != providers.ConcernsCredential:
		credential = "" // a worker with others is over quota as well
	}
	_, cause, about := r.evidence.trouble()
	p := pause.Pause{
		Kind: pause.Provider, App: r.App, Platform: r.Platform, Reason: string(o.Reason), Error: CauseOf(o.Err), Until: now.Add(length),
		Level: r.pause.Level, Credential: credential, Cause: int(cause), Subjects: subjectsText(about),
	}
	if misconfigured {
		p.Level++
	}
	r.pause = pauseState{Pause: p, on: true, own: true, local: true}
	return p, true
}

// worked notes that a push was taken: these credentials are good, and what was
// wrong with the configuration is fixed.
func (r *Route) worked(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.proven = true
	if r.pause.Level > 0 && r.pause.left(now) == 0 {
		r.pause.Level = 0
	}
}

// share has the other workers pause too. What one alone finds wrong may be wrong
// with that worker: it is believed when its credentials have worked before, or one
// on another host says the same, and not at all when its clock is off. It reports
// whether this worker is the first to say so.
func (rs *Routes) share(ctx context.Context, r *Route, p pause.Pause) (first bool) {
	r.breaker.trip(false)
	if rs.outOfStep() {
		rs.Observer.Paused(r.App, r.Platform, providers.Reason(p.Reason))
		return true
	}
	claim := p
	if p.Level > 0 && !r.isProven() {
		claim.Claim = rs.Host
	}
	shared, err := rs.Pauses.Share(ctx, claim)
	if err != nil {
		rs.RedisLog.LogAttrs(ctx, slog.LevelWarn, "the other workers do not know of a pause", slog.String("app", r.App), slog.String("platform", string(r.Platform)), slog.Any("error", err))
	} else if shared != pause.Unheard {
		r.agreed(p)
	}
	if first = shared != pause.Outlasted || err != nil; first { // otherwise another worker was
		rs.Observer.Paused(r.App, r.Platform, providers.Reason(p.Reason))
	}
	return first
}

// inUse is the fingerprint of the credentials that are known to be in use.
func (r *Route) inUse() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.credential
}

func (r *Route) isProven() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.proven
}

// agreed notes that the other workers know of the pause.
func (r *Route) agreed(p pause.Pause) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pause.Pause == p {
		r.pause.local, r.pause.since = false, time.Now()
	}
}

// lift ends the pause, if it is one of those, and has the next push show whether
// the provider takes it: until then nothing is wrong.
func (r *Route) lift(which func(pause.Pause) bool) {
	r.mu.Lock()
	if which(r.pause.Pause) {
		r.pause = pauseState{}
	}
	r.mu.Unlock()
	r.evidence.forget()
	r.evidence.calm()
	r.breaker.probe()
}

// Renew notes which credentials are in use. A pause for others is over.
func (rs *Routes) Renew() {
	for r := range rs.All() {
		r.renew()
	}
}

func (r *Route) renew() {
	now := r.fingerprint()
	r.mu.Lock()
	same := now == r.credential
	r.credential = now
	r.proven = r.proven && same
	r.mu.Unlock()
	if !same {
		r.lift(func(p pause.Pause) bool { return p.Credential != "" && p.Credential != now })
	}
}

// outOfStep reports whether this machine's clock is not Redis's, so that
// providers may refuse what is signed here.
func (rs *Routes) outOfStep() bool {
	if time.Duration(rs.ahead.Load()).Abs() > clock.Limit {
		return true
	}
	return rs.ClockOffset != nil && rs.ClockOffset().Abs() > clock.Limit
}

// Apply has every route in the state that the snapshot, asked for at that instant,
// says.
func (rs *Routes) Apply(ctx context.Context, in *pause.InForce, asked time.Time) {
	rs.ahead.Store(int64(in.Ahead))
	listed := make(map[*Route]pause.Pause, len(in.Providers))
	for _, p := range in.Providers {
		r := rs.all[p.App][p.Platform]
		if r == nil || p.Claim != "" || p.Credential != "" && p.Credential != r.fingerprint() {
			continue
		}
		if other, ok := listed[r]; !ok || !other.Until.IsZero() && (p.Until.IsZero() || p.Until.After(other.Until)) {
			listed[r] = p
		}
	}
	for r := range rs.All() {
		r.operator.Store(in.On(asked, r.App, r.Platform, ""))
		p, on := listed[r]
		if r.apply(p, on, asked) {
			r.breaker.trip(false)
			r.evidence.believe(time.Now(), &p)
		}
		rs.tryAgain(ctx, r, in.Tried[r.Name()])
	}
}

// apply takes over the pause that all workers share, or that there is none. It
// reports whether the route was open until now.
func (r *Route) apply(p pause.Pause, on bool, asked time.Time) (news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.pause.left(asked)
	borneOut := on && p.Reason == r.pause.Reason
	if left > 0 && (r.pause.local && !borneOut || r.pause.since.After(asked)) {
		return false // the list is older
	}
	if !on {
		r.pause.on = false // the level stays: what comes next may fail again
		return false
	}
	own := r.pause.own && r.pause.Reason == p.Reason && r.pause.Level == p.Level
	r.pause = pauseState{Pause: p, on: true, own: own, since: r.pause.since}
	return left == 0
}

// tryAgain has a route tried again whose pauses an operator has ended since the last
// time.
func (rs *Routes) tryAgain(ctx context.Context, r *Route, last pause.Try) {
	news := r.tried >= 0 && last.At > r.tried
	r.tried = max(r.tried, last.At)
	if news {
		r.lift(func(pause.Pause) bool { return true })
		rs.Log.LogAttrs(ctx, slog.LevelInfo, "an operator has the app's provider tried again", slog.String("app", r.App), slog.String("platform", string(r.Platform)), slog.String("by", last.By))
	}
}
