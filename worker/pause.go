package worker

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/worker/clock"
)

// times are how long things take that tests have no time for.
type times struct {
	open    time.Duration // that a breaker stays open
	paused  time.Duration // the first pause for misconfiguration
	poll    time.Duration // between two looks at the shared pauses
	calm    time.Duration // that a provider has to work for its trouble to be over
	webhook webhookTimes
	// snapshot lies between two snapshots.
	snapshot time.Duration
}

func (t *times) setDefaults() {
	orDefault(&t.open, 5*time.Second)
	orDefault(&t.paused, 30*time.Second)
	orDefault(&t.poll, 500*time.Millisecond)
	orDefault(&t.calm, 10*time.Second)
	orDefault(&t.snapshot, time.Second)
	t.webhook.setDefaults()
}

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

// pauseFor decides how long an outcome keeps the app from sending to the
// platform at all; 0 for not. level is how many pauses for misconfiguration came
// just before, and first how long the first of them is.
func pauseFor(o providers.Outcome, level int, first time.Duration) time.Duration {
	switch {
	case o.Kind == providers.Misconfigured:
		return min(first<<min(level, 20), longestPause)
	case o.Kind != providers.Retry || !concernsAll(o):
		return 0
	case o.Concerns == providers.ConcernsProvider && o.RetryAfter <= failureWait, o.RetryAfter <= leastPause:
		return 0
	}
	return o.RetryAfter
}

// A pauseState is what one worker knows of a route's pause.
type pauseState struct {
	Pause
	on  bool // it has begun; it may be over
	own bool // this worker has begun it
	// local says that the other workers may not know of it yet, or do not believe
	// it, and since is when they were told.
	local bool
	since time.Time
}

func (s *pauseState) left(now time.Time) time.Duration {
	switch {
	case !s.on:
		return 0
	case s.Until.IsZero():
		return longestHold
	}
	return max(0, s.Until.Sub(now))
}

// pauseLeft is how long the route's pause lasts; 0 when it has none.
func (r *route) pauseLeft(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pause.left(now)
}

// learn draws from an outcome what it means for everything that takes the route,
// and answers the outcome as it is to be understood. credential is the
// fingerprint of what it was sent with.
func (h *handler) learn(ctx context.Context, r *route, o providers.Outcome, credential string) providers.Outcome {
	now := time.Now()
	o, spiking := r.spike.judge(now, o)
	r.note(now, o)
	if o.Kind == providers.Delivered {
		if !spiking {
			r.worked(now)
		}
		return o
	}
	if pause, begins := r.begin(now, o, h.times.paused, credential); begins {
		h.pause(ctx, r, pause)
	}
	return o
}

// leastGain is by how much a delay has to outlast the pause under way to be a
// longer one: answers that come together ask for the same.
const leastGain = time.Second

// begin pauses the route if the outcome asks for it, and no pause for as long is
// under way.
func (r *route) begin(now time.Time, o providers.Outcome, first time.Duration, credential string) (Pause, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	length, left := pauseFor(o, r.pause.level, first), r.pause.left(now)
	misconfigured := o.Kind == providers.Misconfigured
	switch {
	case length == 0, left > 0 && (misconfigured || length < left+leastGain):
		return Pause{}, false
	case !misconfigured && o.Concerns != providers.ConcernsCredential:
		credential = "" // who has others is over quota as well
	case credential != r.credential:
		return Pause{}, false // it was sent with those before
	}
	p := Pause{App: r.app, Platform: r.platform, Reason: o.Reason, Error: causeOf(o.Err), Until: now.Add(length), level: r.pause.level, credential: credential}
	if misconfigured {
		p.level++
	}
	r.pause = pauseState{Pause: p, on: true, own: true, local: true}
	return p, true
}

// worked notes that a push was taken: these credentials are good, and what was
// wrong with the configuration is mended.
func (r *route) worked(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.proven = true
	if r.pause.level > 0 && r.pause.left(now) == 0 {
		r.pause.level = 0
	}
}

// pause has the other workers pause too. What one alone finds wrong may be wrong
// with that worker: it is believed when its credentials have worked before, or one
// on another host says the same, and not at all when its clock is off.
func (h *handler) pause(ctx context.Context, r *route, p Pause) {
	r.breaker.trip()
	if h.outOfStep() {
		h.Observer.Paused(r.app, r.platform, p.Reason)
		return
	}
	told := p
	if p.level > 0 && !r.isProven() {
		told.claim = h.pauses.host
	}
	set, err := h.pauses.begin(ctx, told)
	if err != nil {
		h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "the other workers do not know of a pause", slog.String("app", r.app), slog.String("platform", string(r.platform)), slog.Any("error", err))
	} else if set != unheard {
		r.told(p)
	}
	if set != stands || err != nil { // otherwise another worker was first
		h.Observer.Paused(r.app, r.platform, p.Reason)
	}
}

func (r *route) isProven() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.proven
}

// told notes that the other workers know of the pause.
func (r *route) told(p Pause) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pause.Pause == p {
		r.pause.local, r.pause.since = false, time.Now()
	}
}

// lift ends the pause, if it is one of those, and has the next push show whether
// the provider takes it: until then nothing is wrong.
func (r *route) lift(which func(Pause) bool) {
	r.mu.Lock()
	if which(r.pause.Pause) {
		r.pause = pauseState{}
	}
	r.mu.Unlock()
	r.spike.reset()
	r.failures.end()
	r.breaker.probe()
}

// renew notes which credentials are in use. A pause for others is over.
func (r *route) renew() {
	now := r.fingerprint()
	r.mu.Lock()
	same := now == r.credential
	r.credential = now
	r.proven = r.proven && same
	r.mu.Unlock()
	if !same {
		r.lift(func(p Pause) bool { return p.credential != "" && p.credential != now })
	}
}

// watchPauses has this worker keep the pauses that others have begun, operators
// among them.
func (h *handler) watchPauses(ctx context.Context) {
	ticker := time.NewTicker(h.times.poll)
	defer ticker.Stop()
	away := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := h.readPauses(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil && !away:
			h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "the pauses cannot be read: those that others begin or end are not known", slog.Any("error", err))
		case err == nil && away:
			h.RedisLog.LogAttrs(ctx, slog.LevelInfo, "the pauses can be read again")
		}
		away = err != nil
	}
}

func (h *handler) readPauses(ctx context.Context) error {
	asked := time.Now()
	for r := range h.routes.all() {
		r.renew()
	}
	all, err := h.pauses.read(ctx)
	if err == nil {
		h.keep(all.pauses, asked)
		h.tryAgain(ctx, all.resumed)
		h.keepHolds(ctx, all.holds, all.ended)
		h.release(ctx, all.holding)
		h.tellUnread(ctx, all.unread)
	}
	return err
}

// tellUnread tells once of each entry of the pauses that cannot be read.
func (h *handler) tellUnread(ctx context.Context, fields []string) {
	for _, field := range fields {
		if !slices.Contains(h.unread, field) {
			h.Log.LogAttrs(ctx, slog.LevelWarn, "a pause cannot be read, and has no effect", slog.String("entry", field[:min(len(field), longestCause)]))
		}
	}
	h.unread = fields
}

// outOfStep reports whether this machine's clock is not Redis's, so that
// providers may refuse what is signed here.
func (h *handler) outOfStep() bool {
	if time.Duration(h.pauses.ahead.Load()).Abs() > clock.Limit {
		return true
	}
	return h.ClockOffset != nil && h.ClockOffset().Abs() > clock.Limit
}

// keep has every route in the state that the list, asked for at that instant, says.
func (h *handler) keep(list []Pause, asked time.Time) {
	listed := make(map[*route]Pause, len(list))
	for _, p := range list {
		r := h.routes[p.App][p.Platform]
		if r == nil || p.claim != "" || p.credential != "" && p.credential != r.fingerprint() {
			continue
		}
		if other, ok := listed[r]; !ok || !other.Until.IsZero() && (p.Until.IsZero() || p.Until.After(other.Until)) {
			listed[r] = p
		}
	}
	for r := range h.routes.all() {
		p, on := listed[r]
		if !r.keep(p, on, asked) {
			continue
		}
		r.breaker.trip()
		if p.Reason == providers.DeadTokenSpike {
			r.spike.begin()
		}
	}
}

// keep takes over the pause that all workers share, or that there is none. It
// answers whether the route was open until now.
func (r *route) keep(p Pause, on bool, asked time.Time) (news bool) {
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
	own := r.pause.own && r.pause.Reason == p.Reason && r.pause.level == p.level
	r.pause = pauseState{Pause: p, on: true, own: own, since: r.pause.since}
	return left == 0
}

// tryAgain has the routes tried again that operators have ended the pauses of
// since the last time.
func (h *handler) tryAgain(ctx context.Context, resumed map[string]resumption) {
	for r := range h.routes.all() {
		last := resumed[r.name()]
		news := r.resumed >= 0 && last.at > r.resumed
		if r.resumed = max(r.resumed, last.at); !news {
			continue
		}
		r.lift(func(Pause) bool { return true })
		h.Log.LogAttrs(ctx, slog.LevelInfo, "an operator has the app's provider tried again", slog.String("app", r.app), slog.String("platform", string(r.platform)), slog.String("by", last.by))
	}
}
