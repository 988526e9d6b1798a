package throttle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/semaphore"

	"github.com/pushpace/pushpace/internal/base/pipeline"
)

// Options configure a Redis limiter. The zero value is ready for use.
type Options struct {
	// Prefix of all keys. Empty means "pushpace".
	Prefix string
	// Horizon is the length of a timeline: at least the longest period of any policy. 0 means 24
	// hours.
	Horizon time.Duration
	// Timeout bounds each round trip, even if Redis accepts the connection and never answers. 0
	// means one second. On a client with shared pipelines, the pipelines' timeout applies.
	Timeout time.Duration
	// Now is the process's clock; nil for time.Now. Only differences of its times count:
	// decisions use Redis's clock.
	Now func() time.Time
}

// Redis is the Planner on Redis, with timelines in sorted sets and times of Redis's clock.
// keys.go has the keys, claim.go the first check, slots.go all other calls.
type Redis struct {
	client  redis.UniversalClient
	shared  redis.UniversalClient // client, or a wrapper with shared pipelines that end closes
	end     func()
	prefix  string
	keep    int64 // µs
	timeout time.Duration
	process process

	users *lru.Cache[userKey, *userState]

	mu     sync.RWMutex // guards what follows
	nodes  map[*pipeline.Pipeline]*node
	closed bool

	trips atomic.Int64
}

type userKey struct{ app, user, category string }

// A userState is a cache entry of this process for a user and category. Its loss costs only work.
type userState struct {
	keys keys
	// waits is the time until which a notification is expected to wait, so that a claim would be
	// denied; kept is when the sets' expiry was last set. Both are in µs of the process's clock.
	waits, kept atomic.Int64
	// claiming is held by this process's running claim for the user and category.
	claiming *semaphore.Weighted
}

// waitsUntil notes that a notification waits at least until the elapsed time. A concurrent call
// may overwrite the note; then the next claim is denied.
func (u *userState) waitsUntil(elapsed int64) {
	if u.waits.Load() < elapsed {
		u.waits.Store(elapsed)
	}
}

// cachedUsers is the size of the userState cache, about 500 bytes a user. A claim for a user
// that was evicted may be denied.
const cachedUsers = 16384

var errClosed = errors.New("throttle: the limiter is closed")

// New returns a limiter on a redis.Client or redis.ClusterClient, which the caller closes after
// the limiter. New rejects other types, and clients without ContextTimeoutEnabled, because these
// ignore Options.Timeout.
func New(client redis.UniversalClient, o Options) (*Redis, error) {
	if o.Horizon < 0 || o.Timeout < 0 {
		return nil, errors.New("throttle: Options.Horizon or Timeout is negative")
	}
	o.Prefix = cmp.Or(o.Prefix, "pushpace")
	o.Horizon = cmp.Or(o.Horizon, 24*time.Hour)
	o.Timeout = cmp.Or(o.Timeout, time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := serves(client); err != nil {
		return nil, err
	}
	users, err := lru.New[userKey, *userState](cachedUsers)
	if err != nil {
		return nil, fmt.Errorf("throttle: %w", err)
	}
	l := &Redis{
		client: client, prefix: o.Prefix, keep: o.Horizon.Microseconds(), timeout: o.Timeout,
		process: process{start: o.Now(), now: o.Now}, users: users, nodes: map[*pipeline.Pipeline]*node{},
	}
	l.shared, l.end = client, func() {}
	if !pipeline.Shares(client) {
		l.shared, l.end = pipeline.Share(client, pipeline.Options{Lanes: laneCount, Timeout: o.Timeout / 2})
	}
	return l, nil
}

// serves returns an error if a limiter cannot use the client.
func serves(client redis.UniversalClient) error {
	bounded := false
	switch c := client.(type) {
	case *pipeline.Client:
		bounded = c.Options().ContextTimeoutEnabled
	case *redis.Client:
		bounded = c.Options().ContextTimeoutEnabled
	case *pipeline.Cluster:
		bounded = c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		bounded = c.Options().ContextTimeoutEnabled
	default:
		return fmt.Errorf("throttle: the limiter cannot use a %T: use redis.NewClient, redis.NewClusterClient or redis.NewUniversalClient", client)
	}
	if !bounded {
		return errors.New("throttle: set ContextTimeoutEnabled in the Redis client's options: otherwise a call to a server that does not answer lasts longer than Options.Timeout")
	}
	return nil
}

// Close waits for the running calls and stops the limiter's goroutines.
func (l *Redis) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()
	l.end()
	return nil
}

// RoundTrips returns the number of round trips since New.
func (l *Redis) RoundTrips() int64 { return l.trips.Load() }

// life is the TTL of a set in µs: five quarters of the horizon, because claims renew it only after
// a quarter of the horizon.
func (l *Redis) life() int64 { return l.keep + l.keep/4 }

// Acquire implements Limiter.
func (l *Redis) Acquire(ctx context.Context, r Request) (Decision, error) {
	if err := r.validateID(); err != nil {
		return Decision{}, err
	}
	if len(r.Scopes) == 0 {
		return grantedAt(l.now()), nil
	}
	user, asked := l.user(&r), l.elapsed()
	if asked < user.waits.Load() || r.SlotOnly || r.Replaces != "" || l.closes(&r) {
		return l.wait(ctx, &r, user, deniedClaim{})
	}
	if !user.claiming.TryAcquire(1) {
		if err := l.awaitNoClaim(ctx, user); err != nil {
			return Decision{}, err
		}
		return l.wait(ctx, &r, user, deniedClaim{})
	}
	defer user.claiming.Release(1) // after waits is set for the next caller
	if asked < user.waits.Load() {
		return l.wait(ctx, &r, user, deniedClaim{})
	}
	return l.arrive(ctx, &r, user, asked)
}

// awaitNoClaim waits until this process has no running claim for the user and category. A
// concurrent script call could add a slot first, so that the claim is denied, or could count a
// claim that is then denied. Claims for the user's other categories may be running.
func (l *Redis) awaitNoClaim(ctx context.Context, user *userState) error {
	if err := user.claiming.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("throttle: %w", err)
	}
	user.claiming.Release(1)
	return nil
}

// AcquireAll implements Planner.
func (l *Redis) AcquireAll(ctx context.Context, all []Request) ([]Decision, error) {
	if err := validateAll(all); err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Line() != all[0].Line() { // its zone, and so its quiet hours, differ
			all = all[:i]
			break
		}
	}
	if len(all) == 1 || len(all[0].Scopes) == 0 {
		d, err := l.Acquire(ctx, all[0])
		if err != nil {
			return nil, err
		}
		return []Decision{d}, nil
	}
	user := l.user(&all[0])
	if err := l.awaitNoClaim(ctx, user); err != nil {
		return nil, err
	}
	return l.waitAll(ctx, all, user, deniedClaim{})
}

// arrive makes the first check: a claim, and the script if the claim is denied.
func (l *Redis) arrive(ctx context.Context, r *Request, user *userState, asked int64) (Decision, error) {
	c, err := l.claim(ctx, r, user, asked)
	if errors.Is(err, errNotExecuted) {
		return l.wait(ctx, r, user, deniedClaim{})
	}
	if err != nil {
		user.kept.Store(0)
		return Decision{}, err
	}
	if !c.judge() || r.until(c.stamp, c.stamp) > 0 {
		claim := deniedClaim{c.stamp, c.now}
		if !c.entered { // the set holds an earlier admission of the notification
			claim = deniedClaim{}
		}
		d, err := l.wait(ctx, r, user, claim)
		if d.Status == Deferred {
			d.ClockBack = c.clockBack()
		}
		return d, err
	}
	d := grantedAt(micros(c.stamp))
	if r.Report {
		d.Remaining = r.remaining(c.counts)
	}
	// a claim within the gap would be denied
	for i := range r.Scopes {
		user.waitsUntil(c.received + r.Scopes[i].Policy.MinGap.Microseconds())
	}
	if c.pruned {
		user.kept.Store(asked + 1)
	} else if c.fresh {
		if err := l.expire(ctx, r, user); err != nil {
			user.kept.Store(0)
		}
	}
	return d, nil
}

// wait runs the script.
func (l *Redis) wait(ctx context.Context, r *Request, user *userState, claim deniedClaim) (Decision, error) {
	all, err := l.waitAll(ctx, []Request{*r}, user, claim)
	if err != nil {
		return Decision{}, err
	}
	return all[0], nil
}

func (l *Redis) waitAll(ctx context.Context, all []Request, user *userState, claim deniedClaim) ([]Decision, error) {
	clock, asked := l.clockOf(ctx, user.keys.sent), l.elapsed()
	decisions, err := l.visit(ctx, all, user, claim)
	answered := clock != nil && clock == l.clockOf(ctx, user.keys.sent) // the key is still on the same server
	for i := range decisions {
		d := &decisions[i]
		if d.Left > 0 && answered {
			passed := clock.passed(asked, d.Now.UnixMicro())
			d.Left -= min(d.Left, time.Duration(passed)*time.Microsecond)
		}
		if d.Left > 0 {
			user.waitsUntil(l.elapsed() + d.Left.Microseconds())
		}
	}
	return decisions, err
}

// user returns the cached state of the request's user and category.
func (l *Redis) user(r *Request) *userState {
	key := userKey{r.App, r.User, r.category()}
	if u, ok := l.users.Get(key); ok {
		return u
	}
	u := &userState{keys: userKeys(l.prefix, r), claiming: semaphore.NewWeighted(1)}
	l.users.Add(key, u)
	return u
}

// expire sets the expiry of the user's sets of admissions.
func (l *Redis) expire(ctx context.Context, r *Request, user *userState) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	life := time.Duration(l.life()) * time.Microsecond
	pipe := l.client.Pipeline()
	for _, s := range r.Scopes {
		pipe.PExpire(ctx, user.keys.timeline(s.Name), life)
	}
	l.trips.Add(1)
	_, err := pipe.Exec(ctx)
	return err
}

// now predicts Redis's clock.
func (l *Redis) now() time.Time {
	return time.UnixMicro(l.process.now().UnixMicro()).Add(l.ClockOffset())
}

// elapsed returns the µs since New.
func (l *Redis) elapsed() int64 { return l.process.elapsed() }
