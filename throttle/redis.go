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
	// Horizon is how far back a timeline reaches: at least the longest period
	// of any policy, for as long as it is remembered. 0 means 24 hours.
	Horizon time.Duration
	// Timeout bounds each round trip of a call, also when Redis accepts and never
	// answers. 0 means one second. Those of a client whose commands share pipelines
	// have the pipelines' time-out.
	Timeout time.Duration
	// Now is the process's clock, nil for time.Now. Only its progress counts,
	// not what it says: the instants that decide are Redis's.
	Now func() time.Time
}

// Redis is the Planner whose timelines are sorted sets on Redis. Its instants
// are those of Redis's clock. See keys.go for the keys, claim.go for the first
// visit, slots.go for all others.
type Redis struct {
	client  redis.UniversalClient
	shared  redis.UniversalClient // it, or one on it, whose round trips are shared; end ends that one
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

// A userState is what this process remembers of a user and category that it has seen
// lately. It saves work, and is never needed.
type userState struct {
	keys keys
	// waits is until when somebody is thought to wait, so that a first visit
	// would be in vain; kept is when the sets' expiry was last set. Both in µs of
	// the process's clock.
	waits, kept atomic.Int64
	// claiming is held by the claim for this user and category that this process has under way.
	claiming *semaphore.Weighted
}

// waitsUntil notes that somebody waits until then at least. Of two notes at once one
// may be lost, and a claim be made in vain.
func (u *userState) waitsUntil(elapsed int64) {
	if u.waits.Load() < elapsed {
		u.waits.Store(elapsed)
	}
}

// usersRemembered bounds the users of whom the process remembers whether somebody waits: each is
// some 500 bytes. A claim for one that it has forgotten may be made in vain.
const usersRemembered = 16384

var errClosed = errors.New("throttle: the limiter is closed")

// New returns a limiter on the client, a redis.Client or a redis.ClusterClient, which stays
// the caller's to close after the limiter. It refuses other clients, and one without
// ContextTimeoutEnabled: Options.Timeout would not hold.
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
	users, err := lru.New[userKey, *userState](usersRemembered)
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

// serves returns why a limiter does not work on the client, or nil.
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
		return fmt.Errorf("throttle: a %T cannot hold timelines: use redis.NewClient, redis.NewClusterClient or redis.NewUniversalClient", client)
	}
	if !bounded {
		return errors.New("throttle: set ContextTimeoutEnabled in the Redis client's options: without it a server that accepts and never answers holds a call for longer than Options.Timeout")
	}
	return nil
}

// Close waits for the calls under way and ends the limiter's goroutines.
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

// RoundTrips answers how many round trips the limiter has made.
func (l *Redis) RoundTrips() int64 { return l.trips.Load() }

// life is how long a set lives after its last entry: what is kept, and as much
// again as the claims of a process may leave the expiry alone.
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
	if asked < user.waits.Load() || r.Books || r.Elder != "" || l.closes(&r) {
		return l.wait(ctx, &r, user, denial{})
	}
	if !user.claiming.TryAcquire(1) {
		if err := l.besideNoClaim(ctx, user); err != nil {
			return Decision{}, err
		}
		return l.wait(ctx, &r, user, denial{})
	}
	defer user.claiming.Release(1) // once it is known what the next one has to wait for
	if asked < user.waits.Load() {
		return l.wait(ctx, &r, user, denial{})
	}
	return l.arrive(ctx, &r, user, asked)
}

// besideNoClaim waits until this process has no claim for the user and category under way. Beside
// one, a call of the script may deny it by coming first, or count it though it will be denied.
// Claims for the user's other categories may be under way.
func (l *Redis) besideNoClaim(ctx context.Context, user *userState) error {
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
		if all[i].Line() != all[0].Line() { // it asks by other quiet hours
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
	if err := l.besideNoClaim(ctx, user); err != nil {
		return nil, err
	}
	return l.waitAll(ctx, all, user, denial{})
}

// arrive is a first visit: a claim, and what it denies asks the script.
func (l *Redis) arrive(ctx context.Context, r *Request, user *userState, asked int64) (Decision, error) {
	c, err := l.claim(ctx, r, user, asked)
	if errors.Is(err, errNotHere) {
		return l.wait(ctx, r, user, denial{})
	}
	if err != nil {
		user.kept.Store(0)
		return Decision{}, err
	}
	if !c.judge() || r.until(c.stamp, c.stamp) > 0 {
		claim := denial{c.stamp, c.now}
		if !c.entered { // an earlier admission stands there
			claim = denial{}
		}
		return l.wait(ctx, r, user, claim)
	}
	d := grantedAt(micros(c.stamp))
	if r.Report {
		d.Remaining = r.remaining(c.counts)
	}
	// whoever comes within the gap is denied: a claim would only be in the way
	for i := range r.Scopes {
		user.waitsUntil(c.received + r.Scopes[i].Policy.MinGap.Microseconds())
	}
	if c.housekept {
		user.kept.Store(asked + 1)
	} else if c.fresh {
		if err := l.expire(ctx, r, user); err != nil {
			user.kept.Store(0)
		}
	}
	return d, nil
}

// wait runs the script.
func (l *Redis) wait(ctx context.Context, r *Request, user *userState, claim denial) (Decision, error) {
	all, err := l.waitAll(ctx, []Request{*r}, user, claim)
	if err != nil {
		return Decision{}, err
	}
	return all[0], nil
}

func (l *Redis) waitAll(ctx context.Context, all []Request, user *userState, claim denial) ([]Decision, error) {
	clock, asked := l.clockOf(ctx, user.keys.sent), l.elapsed()
	decisions, err := l.visit(ctx, all, user, claim)
	answered := clock != nil && clock == l.clockOf(ctx, user.keys.sent) // as far as the client knows
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

// user answers what is remembered of the request's user.
func (l *Redis) user(r *Request) *userState {
	key := userKey{r.App, r.User, r.class()}
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

// elapsed answers the µs since the limiter was made.
func (l *Redis) elapsed() int64 { return l.process.elapsed() }
