// Package reschedule applies changed limits to waiting notifications. When a limit is raised, by
// an override or in the configuration, it moves slots forward and wakes their jobs. After a mute
// it ends the muted notifications. A lowered limit needs nothing: each due job is checked against
// the limits in force. Start with Follow.
//
// Each worker follows the limits. It acts one second after a change, when most other workers have the
// change in force too, so that slots booked by the old limits are moved as well. Every worker handles a
// change for one user; only the first has an effect. A change of a category or the default needs a scan
// of all waiting users, and a mute a scan of all waiting notifications. One worker makes that scan for
// all, under a lock in Redis. A worker that starts checks whether the last mute was scanned.
//
// Package reschedule asks the limiter for new slots and control to wake the jobs. It must not
// book or admit anything itself. It retries failures; until then jobs keep their old slots, which
// also fit the limits.
package reschedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/control"
)

const (
	// fewUsers is the maximum of changed users that every worker handles one by one, in some 100
	// ms. For more, as after an import of up to 100,000, one worker scans all waiting users.
	fewUsers = 256
	// propagated is how long after a change all workers have it in force. A job woken earlier might be
	// checked by the old limits, and lose its slot. Scans begin after this time, so that one scan is
	// enough for all workers.
	propagated = time.Second
)

// Config configures Follow. All fields but Waiting are required.
type Config struct {
	Limits    *limits.Policies
	Overrides *limits.Overrides
	Limiter   throttle.Planner
	Control   *control.Control
	// Waiting calls f for all waiting users: see throttle.Redis. nil for no scans.
	Waiting func(ctx context.Context, f func(app, user string) error) error
	Apps    []string
	// Redis has the scan lock of the workers, under the prefix.
	Redis    redis.UniversalClient
	Prefix   string
	RedisLog *slog.Logger
}

// A rescheduler is the state of one worker.
type rescheduler struct {
	Config
	lock scanLock

	mu     sync.Mutex
	users  map[limits.Level]bool
	scopes map[limits.Level]time.Time // scopes to scan, with the instant from which they are in force
	// Users and scopes have a channel each, so that a long scan does not delay users.
	newUsers, newScopes chan struct{}
	// everyone has the last seen policies without overrides of users, by app and category.
	everyone map[limits.Level]throttle.Policy
	began    bool // the overrides were read once
}

// muted is the scope of all mutes: one scan handles all mutes.
var muted = limits.Level{Mute: true}

// Follow applies overrides to the limits, and reschedules waiting notifications, until ctx ends.
func Follow(ctx context.Context, c Config) {
	r := &rescheduler{
		Config: c, lock: newScanLock(c.Redis, c.Prefix),
		users: map[limits.Level]bool{}, scopes: map[limits.Level]time.Time{}, newUsers: make(chan struct{}, 1), newScopes: make(chan struct{}, 1),
	}
	r.everyone = r.forEveryone()
	var side sync.WaitGroup
	defer side.Wait()
	side.Go(func() { r.run(ctx, r.newUsers, r.moveUsers) })
	side.Go(func() { r.run(ctx, r.newScopes, r.scanScopes) })
	unknown := clock.Trouble{Log: c.RedisLog, Begins: "this worker cannot read changes of the limits; the limits read last stay in force", Ends: "this worker reads changes of the limits again"}
	c.Overrides.Follow(ctx, c.Limits, func(changes []limits.Change, err error) {
		unknown.Failing(ctx, err)
		r.note(changes, err == nil)
		if n := lost(changes); n > 0 {
			c.RedisLog.LogAttrs(ctx, slog.LevelWarn, "Redis has lost overrides and mutes before their end: set them again", slog.Int("count", n))
			c.Control.NoteLoss(control.Loss{Overrides: int64(n)})
		}
	})
}

// lost returns the number of overrides and mutes that Redis has lost.
func lost(changes []limits.Change) (n int) {
	for _, c := range changes {
		if c.Why == limits.Lost {
			n++
		}
	}
	return n
}

// note records changes for users and for everyone. known reports whether they are complete.
func (r *rescheduler) note(changes []limits.Change, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Limits.Now()
	for _, c := range changes {
		switch {
		case c.Mute && c.To != nil:
			r.scopes[muted] = now
		case c.User != "" && !c.Mute:
			r.users[c.Level] = true
		}
	}
	if known && !r.began {
		if last := r.Limits.NewestMute(); last != nil {
			r.scopes[muted] = last.At
		}
		r.began = true
	}
	if len(r.users) > fewUsers {
		for of := range r.users {
			r.scopes[limits.Level{App: of.App, Category: of.Category}] = now
		}
		clear(r.users)
	}
	before, all := r.everyone, r.forEveryone()
	r.everyone = maps.Clone(all)
	maps.Copy(all, before)                // all has the levels of both
	raised := map[string][]limits.Level{} // by category: raised levels
	for of := range all {
		if throttle.Raises(before[of], r.everyone[of]) {
			raised[of.Category] = append(raised[of.Category], of)
		}
	}
	for category, in := range raised {
		if len(in) == len(r.Apps) { // one scan for all apps
			in = []limits.Level{{Category: category}}
		}
		for _, of := range in {
			r.scopes[of] = now
		}
	}
	if len(r.users) > 0 {
		signal(r.newUsers)
	}
	if len(r.scopes) > 0 {
		signal(r.newScopes)
	}
}

func signal(signals chan struct{}) {
	select {
	case signals <- struct{}{}:
	default:
	}
}

// forEveryone returns the policies of users without their own, by app and category.
func (r *rescheduler) forEveryone() map[limits.Level]throttle.Policy {
	all := map[limits.Level]throttle.Policy{}
	for _, app := range r.Apps {
		for _, category := range append(r.Limits.Categories(app, ""), "") {
			of := limits.Level{App: app, Category: category}
			all[of] = r.Limits.InForce(of).Policy
		}
	}
	return all
}

// run calls move after each signal, until ctx ends. It retries failures.
func (r *rescheduler) run(ctx context.Context, signals chan struct{}, move func(context.Context) error) {
	waits := clock.Trouble{Log: r.RedisLog, Begins: "raised limits or mutes could not be applied to waiting notifications yet, which keep their slots"}
	for {
		select {
		case <-signals:
		case <-ctx.Done():
			return
		}
		if clock.Sleep(ctx, propagated) != nil {
			return
		}
		err := move(ctx)
		if waits.Failing(ctx, err); err != nil {
			if clock.Sleep(ctx, store.RetryDelay) != nil {
				return
			}
			signal(signals)
		}
	}
}

// moveUsers reschedules the users with changed limits.
func (r *rescheduler) moveUsers(ctx context.Context) error {
	r.mu.Lock()
	users := r.users
	r.users = map[limits.Level]bool{}
	r.mu.Unlock()
	var errs []error
	for of := range users {
		for _, app := range r.Apps {
			if of.App != "" && of.App != app {
				continue
			}
			if err := r.move(ctx, limits.Level{App: app, User: of.User, Category: of.Category}); err != nil {
				errs = append(errs, err)
				r.mu.Lock()
				r.users[of] = true
				r.mu.Unlock()
				break
			}
		}
	}
	return errors.Join(errs...)
}

// scanScopes scans for all recorded scopes.
func (r *rescheduler) scanScopes(ctx context.Context) error {
	for {
		of, since, ok := r.nextScope()
		if !ok {
			return nil
		}
		if err := r.scan(ctx, of, since); err != nil {
			return err
		}
		r.mu.Lock()
		if r.scopes[of].Equal(since) { // not changed since
			delete(r.scopes, of)
		}
		r.mu.Unlock()
	}
}

func (r *rescheduler) nextScope() (limits.Level, time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for of, since := range r.scopes {
		return of, since, true
	}
	return limits.Level{}, time.Time{}, false
}

// scan scans the waiting users of this level, unless another worker has begun a later scan. since is when
// the change came into force in this worker.
func (r *rescheduler) scan(ctx context.Context, of limits.Level, since time.Time) error {
	if err := clock.Sleep(ctx, since.Add(propagated).Sub(r.Limits.Now())); err != nil {
		return err
	}
	return r.lock.with(ctx, func(ctx context.Context) error {
		began := r.Limits.Now()
		if done, err := r.lock.done(ctx, of, since); err != nil || done {
			return err
		}
		if err := r.scanAll(ctx, of); err != nil {
			return err
		}
		return r.lock.note(ctx, of, began)
	})
}

func (r *rescheduler) scanAll(ctx context.Context, of limits.Level) error {
	if of.Mute {
		return r.Control.EndMuted(ctx)
	}
	if r.Waiting == nil {
		return nil
	}
	failed := false
	return r.Waiting(ctx, func(app, user string) error {
		if of.App != "" && of.App != app {
			return nil
		}
		err := r.move(ctx, limits.Level{App: app, User: user, Category: of.Category})
		switch {
		case errors.Is(err, throttle.ErrUnavailable), ctx.Err() != nil:
			return err
		case err != nil && !failed: // the jobs of this user keep their slots
			failed = true
			r.RedisLog.LogAttrs(ctx, slog.LevelWarn, "a waiting user could not be rescheduled", slog.String("app", app), slog.Any("error", err))
		}
		return clock.Sleep(ctx, clock.ScanPause)
	})
}

// move places the user's lines in the app again, the category's line first, and wakes jobs with
// earlier slots.
func (r *rescheduler) move(ctx context.Context, of limits.Level) error {
	first := control.LineRequest(of.App, of.User, throttle.Line{Category: of.Category}, r.Limits.InForce)
	placed, err := r.Limiter.Replan(ctx, []throttle.Request{first})
	if err != nil {
		return fmt.Errorf("replan: %w", err)
	}
	early := placed.Early
	if len(placed.Others) > 0 {
		others := control.LineRequests(of.App, of.User, placed.Others, r.Limits.InForce)
		if placed, err = r.Limiter.Replan(ctx, others); err != nil {
			return fmt.Errorf("replan: %w", err)
		}
		early = append(early, placed.Early...)
	}
	r.Control.Wake(ctx, of.App, of.User, early)
	return nil
}
