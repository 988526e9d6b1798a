package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// times are how long things take that tests have no time for.
type times struct {
	open    time.Duration // that a breaker stays open
	paused  time.Duration // the first pause for misconfiguration
	poll    time.Duration // between two looks at the shared pauses
	webhook webhookTimes
	// snapshot lies between two snapshots.
	snapshot time.Duration
}

func (t *times) setDefaults() {
	orDefault(&t.open, 5*time.Second)
	orDefault(&t.paused, 30*time.Second)
	orDefault(&t.poll, 500*time.Millisecond)
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
	on bool // it has begun; it may be over
	// local says that the other workers may not know of it yet, and since is when
	// they were told.
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
// and answers the outcome as it is to be understood.
func (h *handler) learn(ctx context.Context, r *route, o providers.Outcome) providers.Outcome {
	now := time.Now()
	o, spiking := r.spike.judge(now, o)
	r.note(now, o)
	if o.Kind == providers.Delivered {
		if !spiking && r.mended(now) {
			h.Log.LogAttrs(ctx, slog.LevelInfo, "the app's provider works again", slog.String("app", r.app), slog.String("platform", string(r.platform)))
		}
		return o
	}
	if pause, begins := r.begin(now, o, h.times.paused); begins {
		h.pause(ctx, r, pause, o)
	}
	return o
}

// begin pauses the route if the outcome asks for it, and no pause for as long is
// under way.
func (r *route) begin(now time.Time, o providers.Outcome, first time.Duration) (Pause, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	length, left := pauseFor(o, r.pause.level, first), r.pause.left(now)
	misconfigured := o.Kind == providers.Misconfigured
	if length <= left || left > 0 && misconfigured {
		return Pause{}, false
	}
	p := Pause{App: r.app, Platform: r.platform, Reason: o.Reason, Until: now.Add(length), level: r.pause.level}
	if misconfigured {
		p.level++
	}
	r.pause = pauseState{Pause: p, on: true, local: true}
	return p, true
}

// mended notes that a push was taken. It answers whether that ends a
// misconfiguration.
func (r *route) mended(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pause.level == 0 || r.pause.left(now) > 0 {
		return false
	}
	r.pause.level = 0
	return true
}

// pause tells the other workers and the operator. The operator hears of a
// misconfiguration once, and of a delay whenever it begins.
func (h *handler) pause(ctx context.Context, r *route, p Pause, o providers.Outcome) {
	r.breaker.trip()
	set, err := h.pauses.begin(ctx, p)
	if err != nil {
		h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "the other workers do not know of a pause", slog.String("app", r.app), slog.String("platform", string(r.platform)), slog.Any("error", err))
	} else {
		r.told(p)
	}
	if !set && err == nil {
		return // another worker was first
	}
	h.Observer.Paused(r.app, r.platform, p.Reason)
	if p.level > 1 {
		return
	}
	level, message := slog.LevelWarn, "the app's provider asks for a pause"
	if p.level == 1 {
		level, message = slog.LevelError, "the app is misconfigured: its notifications are kept until it is mended"
	}
	h.Log.LogAttrs(ctx, level, message, slog.String("app", r.app), slog.String("platform", string(r.platform)),
		slog.String("reason", string(p.Reason)), slog.Duration("pause", time.Until(p.Until).Round(time.Second)), slog.Any("error", o.Err))
}

// told notes that the other workers know of the pause.
func (r *route) told(p Pause) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pause.Pause == p {
		r.pause.local, r.pause.since = false, time.Now()
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
			h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "the queue's Redis does not answer: what waits there stays, and pauses that others begin are not known", slog.Any("error", err))
		case err == nil && away:
			h.RedisLog.LogAttrs(ctx, slog.LevelInfo, "the queue's Redis answers again")
		}
		away = err != nil
	}
}

func (h *handler) readPauses(ctx context.Context) error {
	asked := time.Now()
	all, err := h.pauses.read(ctx)
	if err == nil {
		h.keep(all.pauses, asked)
		h.keepHolds(ctx, all.holds, all.ended)
		h.release(ctx, all.holding)
	}
	return err
}

// keep has every route in the state that the list, asked for at that instant, says.
func (h *handler) keep(list []Pause, asked time.Time) {
	listed := make(map[*route]Pause, len(list))
	for _, p := range list {
		if r := h.routes[p.App][p.Platform]; r != nil {
			listed[r] = p
		}
	}
	for _, app := range h.routes {
		for _, r := range app {
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
}

// keep takes over the pause that all workers share, or that there is none. It
// answers whether the route was open until now.
func (r *route) keep(p Pause, on bool, asked time.Time) (news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.pause.left(asked)
	if left > 0 && (r.pause.local || r.pause.since.After(asked)) {
		return false // the list is older
	}
	if !on {
		r.pause.on = false // the level stays: what comes next may fail again
		return false
	}
	r.pause = pauseState{Pause: p, on: true, since: r.pause.since}
	return left == 0
}

// breakerChanged tells of the breaker of an app's provider.
func (o *Options) breakerChanged(app string, platform push.Platform) func(open bool) {
	return func(open bool) {
		o.Observer.Breaker(app, platform, open)
		level, message := slog.LevelInfo, "the app's provider answers again"
		if open {
			level, message = slog.LevelWarn, "the app's provider is in trouble: its notifications wait on the queue"
		}
		o.Log.LogAttrs(context.Background(), level, message, slog.String("app", app), slog.String("platform", string(platform)))
	}
}
