package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/clock"
)

const (
	// fewUsers is up to how many changed users are looked after one by one; of
	// more, all who wait are looked through.
	fewUsers = 256
	// settling is how long after a change of a user's limits most workers have it in
	// force: who is woken before may come to one that has not, and lose its place.
	settling = 500 * time.Millisecond
	// everywhere is how long after a change all workers have it in force. A look
	// through all who wait begins then, so that one suffices for all workers.
	everywhere = time.Second
	// Bookings of several users are woken together: wakeBatch of them, or those of
	// wakeEvery. retunePause lies between two users, so that Redis serves others too.
	wakeBatch   = 500
	wakeEvery   = 200 * time.Millisecond
	retunePause = 500 * time.Microsecond
	// retuneAgain is after how long what could not be done is tried again.
	retuneAgain = 2 * time.Second
)

// A retuner moves those who wait forward when their limits are raised. A worker
// retunes after it has a change in force itself: whoever is the last to have it,
// and has booked by the limits before until then, leaves what is right.
type retuner struct {
	*handler
	lock passLock

	mu     sync.Mutex
	users  map[tuned]bool
	scopes map[string]time.Time // to be looked through, and since when their limits are in force
	// told of either: a look through all who wait takes as long as they are many
	newUsers, newScopes chan struct{}
	// what was configured when it was last looked at
	general    throttle.Policy
	categories map[string]throttle.Policy
}

// tuned is a user, and the category whose limits have changed, "" for the general ones.
type tuned struct{ user, category string }

// followLimits keeps the limits in step with their overrides, and retunes, until
// the worker stops.
func (h *handler) followLimits() {
	if h.Overrides == nil {
		return
	}
	t := &retuner{
		handler: h, lock: newPassLock(h.Queue, h.Prefix),
		users: map[tuned]bool{}, scopes: map[string]time.Time{}, newUsers: make(chan struct{}, 1), newScopes: make(chan struct{}, 1),
	}
	t.general, t.categories = h.Limits.Base()
	h.side.Go(func() { run(h.stopping, h.RedisLog, t.newUsers, t.retuneUsers) })
	h.side.Go(func() { run(h.stopping, h.RedisLog, t.newScopes, t.retuneScopes) })
	h.side.Go(func() {
		away := false
		h.Overrides.Follow(h.stopping, h.Limits, func(changes []limits.Change, err error) {
			if err != nil && !away {
				h.RedisLog.LogAttrs(h.stopping, slog.LevelWarn, "changes of the limits are not known; those known before stay in force", slog.Any("error", err))
			} else if err == nil && away {
				h.RedisLog.LogAttrs(h.stopping, slog.LevelInfo, "changes of the limits are known again")
			}
			away = err != nil
			t.note(changes)
		})
	})
}

// note takes in what has changed, of the overrides and of the configuration.
func (t *retuner) note(changes []limits.Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.Limits.Now()
	for _, c := range changes {
		if c.User != "" {
			t.users[tuned{c.User, c.Category}] = true
		} else if throttle.Raises(t.policyOf(c.From, c.Category), t.policyOf(c.To, c.Category)) {
			t.scopes[c.Category] = now
		}
	}
	if len(t.users) > fewUsers {
		for of := range t.users {
			t.scopes[scopeOf(of.category)] = now
		}
		clear(t.users)
	}
	general, categories := t.Limits.Base()
	if throttle.Raises(t.general, general) {
		t.scopes[throttle.General] = now
	}
	for name := range t.categories {
		if throttle.Raises(t.categories[name], categories[name]) {
			t.scopes[name] = now
		}
	}
	for name, policy := range categories {
		if policy.Exempt && !t.categories[name].Exempt {
			t.scopes[name] = now
		}
	}
	t.general, t.categories = general, categories
	if len(t.users) > 0 {
		signal(t.newUsers)
	}
	if len(t.scopes) > 0 {
		signal(t.newScopes)
	}
}

func signal(news chan struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

func scopeOf(category string) string {
	if category == "" {
		return throttle.General
	}
	return category
}

// policyOf is the category's policy with that override.
func (t *retuner) policyOf(o *limits.Override, category string) throttle.Policy {
	if o != nil {
		return o.Policy
	}
	return t.categories[category]
}

// run retunes, when there is news, until ctx ends. What fails is tried again.
func run(ctx context.Context, log *slog.Logger, news chan struct{}, retune func(context.Context) error) {
	failing := false
	for {
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
		if clock.Sleep(ctx, settling) != nil {
			return
		}
		err := retune(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			log.LogAttrs(ctx, slog.LevelWarn, "limits were raised; those who wait come at their old slots until this is done", slog.Any("error", err))
		}
		failing = err != nil
		if failing {
			if clock.Sleep(ctx, retuneAgain) != nil {
				return
			}
			signal(news)
		}
	}
}

// retuneUsers looks after the users whose limits have changed.
func (t *retuner) retuneUsers(ctx context.Context) error {
	t.mu.Lock()
	users := t.users
	t.users = map[tuned]bool{}
	t.mu.Unlock()
	var errs []error
	var moved []throttle.Booking
	for of := range users {
		for app := range t.Senders {
			bookings, err := t.retune(ctx, app, of.user, of.category)
			moved = append(moved, bookings...)
			if err != nil {
				errs = append(errs, err)
				t.mu.Lock()
				t.users[of] = true
				t.mu.Unlock()
				break
			}
		}
	}
	t.control.wakeAll(ctx, moved)
	return errors.Join(errs...)
}

// retuneScopes looks through those who wait for limits that were raised.
func (t *retuner) retuneScopes(ctx context.Context) error {
	for {
		scope, since, ok := t.nextScope()
		if !ok {
			return nil
		}
		if err := t.pass(ctx, scope, since); err != nil {
			return err
		}
		t.mu.Lock()
		if t.scopes[scope].Equal(since) { // not changed again meanwhile
			delete(t.scopes, scope)
		}
		t.mu.Unlock()
	}
}

func (t *retuner) nextScope() (string, time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for scope, since := range t.scopes {
		return scope, since, true
	}
	return "", time.Time{}, false
}

// pass looks through all who wait for the scope's limits, which this worker has
// in force since then, unless another worker has done so from a later instant on.
func (t *retuner) pass(ctx context.Context, scope string, since time.Time) error {
	if t.Waiting == nil {
		return nil
	}
	if err := clock.Sleep(ctx, since.Add(everywhere).Sub(t.Limits.Now())); err != nil {
		return err
	}
	return t.lock.hold(ctx, func(ctx context.Context) error {
		began := t.Limits.Now()
		if done, err := t.lock.done(ctx, scope, since); err != nil || done {
			return err
		}
		if err := t.lookThrough(ctx, scope); err != nil {
			return err
		}
		return t.lock.note(ctx, scope, began)
	})
}

func (t *retuner) lookThrough(ctx context.Context, scope string) error {
	category := ""
	if scope != throttle.General {
		category = scope
	}
	var moved []throttle.Booking
	var first time.Time
	failed := false
	one := func(app, user string) error {
		if len(moved) == 0 {
			first = time.Now()
		}
		bookings, err := t.retune(ctx, app, user, category)
		if moved = append(moved, bookings...); len(moved) >= wakeBatch || time.Since(first) > wakeEvery {
			t.control.wakeAll(ctx, moved)
			moved = nil
		}
		switch {
		case errors.Is(err, throttle.ErrUnavailable), ctx.Err() != nil:
			return err
		case err != nil && !failed: // one user's, who comes at the old slots
			failed = true
			t.RedisLog.LogAttrs(ctx, slog.LevelWarn, "a user who waits does not come forward", slog.String("app", app), slog.Any("error", err))
		}
		return clock.Sleep(ctx, retunePause)
	}
	err := t.Waiting(ctx, scope, one)
	t.control.wakeAll(ctx, moved)
	return err
}

// retune gives those of the user who wait, of all categories, the slots that the
// limits in force allow, the general ones and the category's, and returns whom to
// wake for them.
func (t *retuner) retune(ctx context.Context, app, user, category string) ([]throttle.Booking, error) {
	general, own := t.Limits.InForce(user, category)
	r := throttle.Request{App: app, User: user, Category: category, Wait: t.MaxWait, Scopes: []throttle.Scope{{Name: throttle.General, Policy: general.Policy}}}
	if category != "" && (own.Policy.Exempt || !own.Policy.Unlimited()) {
		r.Scopes = append(r.Scopes, throttle.Scope{Name: category, Policy: own.Policy})
	}
	return t.reschedule(ctx, r)
}

// reschedule answers all who wait, and who waits no longer: somebody else may
// have moved them, and told nobody.
func (t *retuner) reschedule(ctx context.Context, r throttle.Request) ([]throttle.Booking, error) {
	found, err := t.Limiter.Reschedule(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("reschedule: %w", err)
	}
	timeline, err := t.Limiter.Timeline(ctx, r)
	if err != nil {
		return found, fmt.Errorf("read the timeline: %w", err)
	}
	known := make(map[string]bool, len(found))
	for _, b := range found {
		known[b.ID] = true
	}
	for _, b := range timeline.Bookings {
		if !known[b.ID] {
			found = append(found, b)
		}
	}
	return found, nil
}
