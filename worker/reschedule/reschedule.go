// Package reschedule moves those that wait forward when their limits are raised, by an
// override or in the configuration, wakes the jobs that wait for a quota that was changed,
// and has those end that wait and are muted. A limit that is lowered needs nothing: whoever
// is due is checked against what is true then.
//
// Each worker follows the limits and looks after a change when it has that in force
// itself, and most others do: whoever booked by the limits before until then is moved
// too. A user's change is looked after by every worker, which changes nothing the
// second time; that of a category or of the default takes a scan of all who wait,
// and a mute one of all that waits, which one worker makes for all, under a lock in
// Redis. A worker that starts looks whether that was done since the last mute.
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
	// fewUsers is up to how many changed users are looked after one by one, by every worker; of
	// more, as after an import of up to 100,000, one worker scans all who wait. So many cost each
	// worker some 100 ms.
	fewUsers = 256
	// propagated is how long after a change all workers have it in force: who is woken before may
	// come to one that has not, and lose its place. A scan begins then, so that one suffices for all
	// workers.
	propagated = time.Second
)

// Config says what is followed, and who waits. All but Waiting is required.
type Config struct {
	Limits    *limits.Policies
	Overrides *limits.Overrides
	Limiter   throttle.Planner
	Control   *control.Control
	// Waiting tells of the users who wait: see throttle.Redis. nil for nobody.
	Waiting func(ctx context.Context, f func(app, user string) error) error
	Apps    []string
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
	users  map[limits.Level]bool
	scopes map[limits.Level]time.Time // everyone's to be scanned, and since when they are in force
	// of either: a scan takes as long as many wait
	newUsers, newScopes chan struct{}
	// what was in force for everyone when it was last looked at, by app and category
	everyone map[limits.Level]throttle.Policy
	began    bool // the overrides were known then
}

// muted stands for all mutes: one scan is for all of them.
var muted = limits.Level{Mute: true}

// Follow keeps the limits in step with their overrides, and moves those that wait,
// until ctx ends.
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
	unknown := clock.Trouble{Log: c.RedisLog, Begins: "changes of the limits are not known; those known before stay in force", Ends: "changes of the limits are known again"}
	c.Overrides.Follow(ctx, c.Limits, func(changes []limits.Change, err error) {
		unknown.Failing(ctx, err)
		r.note(changes, err == nil)
		if n := lost(changes); n > 0 {
			c.RedisLog.LogAttrs(ctx, slog.LevelWarn, "overrides and mutes are gone from Redis before their end: set them again", slog.Int("count", n))
		}
	})
}

// lost counts the overrides and mutes that Redis has lost.
func lost(changes []limits.Change) (n int) {
	for _, c := range changes {
		if c.Why == limits.Lost {
			n++
		}
	}
	return n
}

// note takes in what has changed, of users and for everyone, and whether all of it is known.
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
		if last := r.Limits.LastMuted(); last != nil {
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
	maps.Copy(all, before)                // for the names of both
	raised := map[string][]limits.Level{} // by category
	for of := range all {
		if throttle.Raises(before[of], r.everyone[of]) {
			raised[of.Category] = append(raised[of.Category], of)
		}
	}
	for category, in := range raised {
		if len(in) == len(r.Apps) { // one scan for all of them
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

func signal(news chan struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

// forEveryone returns the policies of whoever has none of its own, by app and category.
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

// run moves when there is news, until ctx ends. What fails is tried again.
func (r *rescheduler) run(ctx context.Context, news chan struct{}, move func(context.Context) error) {
	waits := clock.Trouble{Log: r.RedisLog, Begins: "limits were raised, or somebody muted; those who wait come at their old slots until this is done"}
	for {
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
		if clock.Sleep(ctx, propagated) != nil {
			return
		}
		err := move(ctx)
		if waits.Failing(ctx, err); err != nil {
			if clock.Sleep(ctx, store.Again) != nil {
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

// scanScopes looks through those who wait for limits that were raised.
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
		if r.scopes[of].Equal(since) { // not changed again meanwhile
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

// scan looks through all who wait for these limits, which this worker has in force
// since then, unless another worker has done so from a later instant on.
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
		case err != nil && !failed: // one user's, who comes at the old slots
			failed = true
			r.RedisLog.LogAttrs(ctx, slog.LevelWarn, "a user who waits does not come forward", slog.String("app", app), slog.Any("error", err))
		}
		return clock.Sleep(ctx, clock.ScanPause)
	})
}

// move has the lines of the user in the app placed again, and wakes those who come forward:
// the category's line first, and then the others that wait.
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
