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
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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
	// what was in force for everyone when it was last looked at, by scope
	everyone map[string]throttle.Policy
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
	r.everyone = forEveryone(c.Limits)
	var side sync.WaitGroup
	defer side.Wait()
	side.Go(func() { r.run(ctx, r.newUsers, r.moveUsers) })
	side.Go(func() { r.run(ctx, r.newScopes, r.scanScopes) })
	unknown := clock.Trouble{Log: c.RedisLog, Begins: "changes of the limits are not known; those known before stay in force", Ends: "changes of the limits are known again"}
	c.Overrides.Follow(ctx, c.Limits, func(changes []limits.Change, err error) {
		unknown.Failing(ctx, err)
		r.note(changes)
	})
}

// note takes in what has changed, of users and for everyone.
func (r *rescheduler) note(changes []limits.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Limits.Now()
	for _, c := range changes {
		if c.User != "" {
			r.users[target{c.User, c.Category}] = true
		}
	}
	if len(r.users) > fewUsers {
		for of := range r.users {
			r.scopes[cmp.Or(of.category, throttle.General)] = now
		}
		clear(r.users)
	}
	before, all := r.everyone, forEveryone(r.Limits)
	r.everyone = maps.Clone(all)
	maps.Copy(all, before) // for the names of both
	for scope := range all {
		if throttle.Raises(before[scope], r.everyone[scope]) {
			r.scopes[scope] = now
		}
	}
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

// forEveryone returns the policies of whoever has none of its own, by scope.
func forEveryone(l *limits.Policies) map[string]throttle.Policy {
	general, _ := l.InForce("", "")
	all := map[string]throttle.Policy{throttle.General: general.Policy}
	for _, name := range l.Categories("") {
		_, own := l.InForce("", name)
		all[name] = own.Policy
	}
	return all
}

// run moves when there is news, until ctx ends. What fails is tried again.
func (r *rescheduler) run(ctx context.Context, news chan struct{}, move func(context.Context) error) {
	waits := clock.Trouble{Log: r.RedisLog, Begins: "limits were raised; those who wait come at their old slots until this is done"}
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
		if waits.Failing(ctx, err); err != nil {
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
