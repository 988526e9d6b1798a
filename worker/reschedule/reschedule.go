// Package reschedule moves those that wait forward when their limits are raised, by an
// override or in the configuration. A limit that is lowered needs nothing: whoever is
// due is checked against what is true then.
//
// Each worker follows the limits and looks after a change when it has that in force
// itself, and most others do: whoever booked by the limits before until then is moved
// too. A user's change is looked after by every worker, which changes nothing the
// second time; that of a category or of the default takes a scan of all who wait for
// it, which one worker makes for all, under a lock in Redis.
//
// It asks the limiter for new slots and has control wake the jobs for them; it books
// and admits nothing itself. What fails is tried again; until then those that wait come
// at their old slots, which hold as well.
package reschedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/control"
)

const (
	// fewUsers is up to how many changed users are looked after one by one; of
	// more, all who wait are scanned.
	fewUsers = 256
	// propagating is how long after a change of a user's limits most workers have it in
	// force: who is woken before may come to one that has not, and lose its place.
	propagating = 500 * time.Millisecond
	// propagated is how long after a change all workers have it in force. A scan
	// begins then, so that one suffices for all workers.
	propagated = time.Second
	// Bookings of several users are woken together: wakeBatch of them, or those of
	// wakeEvery. userPause lies between two users, so that Redis serves others too.
	wakeBatch = 500
	wakeEvery = 200 * time.Millisecond
	userPause = 500 * time.Microsecond
	// again is after how long what could not be done is tried again.
	again = 2 * time.Second
)

// Config says what is followed, and who waits. All but Waiting is required.
type Config struct {
	Limits    *limits.Policies
	Overrides *limits.Overrides
	Limiter   throttle.Limiter
	Control   *control.Control
	// Waiting tells of the users who wait for a scope's limits: see throttle.Redis.
	// nil for nobody.
	Waiting func(ctx context.Context, scope string, f func(app, user string) error) error
	Apps    []string
	MaxWait time.Duration // the longest that a worker waits with a job in its hands
	// Redis is where the workers agree on who scans, under the prefix.
	Redis    redis.UniversalClient
	Prefix   string
	RedisLog *slog.Logger
}

// A rescheduler is one worker's.
type rescheduler struct {
	Config
	lock scanLock

	mu     sync.Mutex
	users  map[target]bool
	scopes map[string]time.Time // to be scanned, and since when their limits are in force
	// of either: a scan takes as long as many wait
	newUsers, newScopes chan struct{}
	// what was configured when it was last looked at
	general    throttle.Policy
	categories map[string]throttle.Policy
}

// A target is a user, and the category whose limits have changed, "" for the general
// ones.
type target struct{ user, category string }

// Follow keeps the limits in step with their overrides, and moves those that wait,
// until ctx ends.
func Follow(ctx context.Context, c Config) {
	r := &rescheduler{
		Config: c, lock: newScanLock(c.Redis, c.Prefix),
		users: map[target]bool{}, scopes: map[string]time.Time{}, newUsers: make(chan struct{}, 1), newScopes: make(chan struct{}, 1),
	}
	r.general, r.categories = c.Limits.Base()
	var side sync.WaitGroup
	defer side.Wait()
	side.Go(func() { r.run(ctx, r.newUsers, r.moveUsers) })
	side.Go(func() { r.run(ctx, r.newScopes, r.scanScopes) })
	away := false
	c.Overrides.Follow(ctx, c.Limits, func(changes []limits.Change, err error) {
		if err != nil && !away {
			c.RedisLog.LogAttrs(ctx, slog.LevelWarn, "changes of the limits are not known; those known before stay in force", slog.Any("error", err))
		} else if err == nil && away {
			c.RedisLog.LogAttrs(ctx, slog.LevelInfo, "changes of the limits are known again")
		}
		away = err != nil
		r.note(changes)
	})
}

// note takes in what has changed, of the overrides and of the configuration.
func (r *rescheduler) note(changes []limits.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Limits.Now()
	for _, c := range changes {
		if c.User != "" {
			r.users[target{c.User, c.Category}] = true
		} else if throttle.Raises(r.policyOf(c.From, c.Category), r.policyOf(c.To, c.Category)) {
			r.scopes[c.Category] = now
		}
	}
	if len(r.users) > fewUsers {
		for of := range r.users {
			r.scopes[scopeOf(of.category)] = now
		}
		clear(r.users)
	}
	general, categories := r.Limits.Base()
	if throttle.Raises(r.general, general) {
		r.scopes[throttle.General] = now
	}
	for name := range r.categories {
		if throttle.Raises(r.categories[name], categories[name]) {
			r.scopes[name] = now
		}
	}
	for name, policy := range categories {
		if policy.Exempt && !r.categories[name].Exempt {
			r.scopes[name] = now
		}
	}
	r.general, r.categories = general, categories
	if len(r.users) > 0 {
		signal(r.newUsers)
	}
	if len(r.scopes) > 0 {
		signal(r.newScopes)
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
func (r *rescheduler) policyOf(o *limits.Override, category string) throttle.Policy {
	if o != nil {
		return o.Policy
	}
	return r.categories[category]
}

// run moves when there is news, until ctx ends. What fails is tried again.
func (r *rescheduler) run(ctx context.Context, news chan struct{}, move func(context.Context) error) {
	failing := false
	for {
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
		if clock.Sleep(ctx, propagating) != nil {
			return
		}
		err := move(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			r.RedisLog.LogAttrs(ctx, slog.LevelWarn, "limits were raised; those who wait come at their old slots until this is done", slog.Any("error", err))
		}
		failing = err != nil
		if failing {
			if clock.Sleep(ctx, again) != nil {
				return
			}
			signal(news)
		}
	}
}

// moveUsers looks after the users whose limits have changed.
func (r *rescheduler) moveUsers(ctx context.Context) error {
	r.mu.Lock()
	users := r.users
	r.users = map[target]bool{}
	r.mu.Unlock()
	var errs []error
	var moved []throttle.Booking
	for of := range users {
		for _, app := range r.Apps {
			bookings, err := r.move(ctx, app, of.user, of.category)
			moved = append(moved, bookings...)
			if err != nil {
				errs = append(errs, err)
				r.mu.Lock()
				r.users[of] = true
				r.mu.Unlock()
				break
			}
		}
	}
	r.Control.WakeAll(ctx, moved)
	return errors.Join(errs...)
}

// scanScopes looks through those who wait for limits that were raised.
func (r *rescheduler) scanScopes(ctx context.Context) error {
	for {
		scope, since, ok := r.nextScope()
		if !ok {
			return nil
		}
		if err := r.scan(ctx, scope, since); err != nil {
			return err
		}
		r.mu.Lock()
		if r.scopes[scope].Equal(since) { // not changed again meanwhile
			delete(r.scopes, scope)
		}
		r.mu.Unlock()
	}
}

func (r *rescheduler) nextScope() (string, time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for scope, since := range r.scopes {
		return scope, since, true
	}
	return "", time.Time{}, false
}

// scan looks through all who wait for the scope's limits, which this worker has
// in force since then, unless another worker has done so from a later instant on.
func (r *rescheduler) scan(ctx context.Context, scope string, since time.Time) error {
	if r.Waiting == nil {
		return nil
	}
	if err := clock.Sleep(ctx, since.Add(propagated).Sub(r.Limits.Now())); err != nil {
		return err
	}
	return r.lock.with(ctx, func(ctx context.Context) error {
		began := r.Limits.Now()
		if done, err := r.lock.done(ctx, scope, since); err != nil || done {
			return err
		}
		if err := r.scanAll(ctx, scope); err != nil {
			return err
		}
		return r.lock.note(ctx, scope, began)
	})
}

func (r *rescheduler) scanAll(ctx context.Context, scope string) error {
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
		bookings, err := r.move(ctx, app, user, category)
		if moved = append(moved, bookings...); len(moved) >= wakeBatch || time.Since(first) > wakeEvery {
			r.Control.WakeAll(ctx, moved)
			moved = nil
		}
		switch {
		case errors.Is(err, throttle.ErrUnavailable), ctx.Err() != nil:
			return err
		case err != nil && !failed: // one user's, who comes at the old slots
			failed = true
			r.RedisLog.LogAttrs(ctx, slog.LevelWarn, "a user who waits does not come forward", slog.String("app", app), slog.Any("error", err))
		}
		return clock.Sleep(ctx, userPause)
	}
	err := r.Waiting(ctx, scope, one)
	r.Control.WakeAll(ctx, moved)
	return err
}

// move gives those of the user who wait, of all categories, the slots that the
// limits in force allow, the general ones and the category's. It returns all that wait,
// and what waits no longer: somebody else may have moved them, and woken nobody.
func (r *rescheduler) move(ctx context.Context, app, user, category string) ([]throttle.Booking, error) {
	general, own := r.Limits.InForce(user, category)
	request := throttle.Request{App: app, User: user, Category: category, Wait: r.MaxWait, Scopes: []throttle.Scope{{Name: throttle.General, Policy: general.Policy}}}
	if category != "" && (own.Policy.Exempt || !own.Policy.Unlimited()) {
		request.Scopes = append(request.Scopes, throttle.Scope{Name: category, Policy: own.Policy})
	}
	found, err := r.Limiter.Reschedule(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("reschedule: %w", err)
	}
	timeline, err := r.Limiter.Timeline(ctx, request)
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
