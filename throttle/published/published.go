// Package published has limiters as other projects publish them, with their faults, for comparison
// and study: Limiter, Counters, WeightedWindow and FlooredBucket. Package meter has windows and
// buckets without these faults.
//
// Limiter is the rolling window of rolling-rate-limiter (npm, 0.4.2): one rate and one minimum
// gap for each ID, and denied attempts count. It suits requests whose sender should slow down; a
// job that retries too soon stays blocked for ever.
//
// Its answers equal those of rolling-rate-limiter, with these properties:
//   - An attempt exactly Interval old has expired and no longer enforces the gap: a gap longer
//     than Interval has no effect.
//   - The gap counts from the last attempt, denied or not.
//   - The process's clock decides, not the server's: all processes that share a Redis should
//     have synchronized clocks.
//   - Left and Remaining describe the instant after the attempt, also if it was allowed.
//
// Limiter costs less: rolling-rate-limiter stores and reads every attempt of an ID, Limiter stores
// about Max attempts and reads three. No answer depends on the rest.
package published

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/throttle"
)

// A Limiter limits the attempts of any number of IDs. It is safe for concurrent
// use.
type Limiter struct {
	o     Options
	store attemptStore
}

// Options configure a Limiter.
type Options struct {
	// Interval is the length of the window: positive, in whole microseconds.
	Interval time.Duration
	// Max is the number of attempts that a window allows: 1 or more.
	Max int
	// MinGap between two attempts: 0 for none; whole microseconds.
	MinGap time.Duration
	// Now is the clock, nil for time.Now.
	Now func() time.Time

	// Prefix of the keys on Redis. Empty means "pushpace". Limiters with the
	// same prefix count each other's attempts.
	Prefix string
	// Timeout bounds a call to Redis. 0 means one second.
	Timeout time.Duration
}

// A Result is the answer to an attempt.
type Result struct {
	Blocked bool
	ByCount bool // the window holds more than Max attempts, including this one
	ByGap   bool // the previous attempt is less than MinGap ago
	// Left is the time to wait before the next attempt, in whole milliseconds, rounded up.
	Left time.Duration
	// Remaining is how many more attempts the window allows, at least 0.
	Remaining int
}

// New returns a limiter with its attempts on Redis, in a sorted set of times in µs for each ID,
// PREFIX:{ID}:published. The caller closes the client, which should have ContextTimeoutEnabled, or
// its own timeouts below Options.Timeout.
func New(client redis.UniversalClient, o Options) (*Limiter, error) {
	o.Prefix = cmp.Or(o.Prefix, "pushpace")
	o.Timeout = cmp.Or(o.Timeout, time.Second)
	return newLimiter(o, &attemptsOnRedis{client: client, o: o})
}

// NewMemory returns a limiter with its attempts in this process.
func NewMemory(o Options) (*Limiter, error) {
	return newLimiter(o, newAttemptsInMemory(o))
}

func newLimiter(o Options, store attemptStore) (*Limiter, error) {
	switch {
	case o.Interval <= 0 || o.Interval%time.Microsecond != 0:
		return nil, fmt.Errorf("throttle: published: interval %s: want a positive duration in whole microseconds", o.Interval)
	case o.Max < 1:
		return nil, fmt.Errorf("throttle: published: max %d: want 1 or more", o.Max)
	case o.MinGap < 0 || o.MinGap%time.Microsecond != 0:
		return nil, fmt.Errorf("throttle: published: min gap %s: want 0 or a positive duration in whole microseconds", o.MinGap)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Limiter{o: o, store: store}, nil
}

// Limit makes an attempt, which counts even if it is denied.
func (p *Limiter) Limit(ctx context.Context, id string) (Result, error) {
	return p.ask(ctx, id, true)
}

// WouldLimit returns Limit's result without an attempt.
func (p *Limiter) WouldLimit(ctx context.Context, id string) (Result, error) {
	return p.ask(ctx, id, false)
}

// Clear removes the attempts of the ID.
func (p *Limiter) Clear(ctx context.Context, id string) error {
	return p.store.clear(ctx, id)
}

func (p *Limiter) ask(ctx context.Context, id string, record bool) (Result, error) {
	a, err := p.store.attempt(ctx, id, p.o.Now().UnixMicro(), record)
	if err != nil {
		return Result{}, err
	}
	return p.o.decide(a), nil
}

// attempts is the input of a decision about an ID: its unexpired attempts, including the current
// one. Times are in µs.
type attempts struct {
	count    int
	current  int64
	previous int64 // when count is at least 2
	nth      int64 // the Max-th newest, when count is at least Max
}

// decide makes the published decision.
func (o *Options) decide(a attempts) Result {
	gap := o.MinGap.Microseconds()
	left := gap
	if a.count >= o.Max {
		left = max(left, a.nth+o.Interval.Microseconds()-a.current)
	}
	r := Result{
		ByCount:   a.count > o.Max,
		ByGap:     a.count > 1 && gap > 0 && a.current-a.previous < gap,
		Left:      time.Duration((left+999)/1000) * time.Millisecond,
		Remaining: max(0, o.Max-a.count),
	}
	r.Blocked = r.ByCount || r.ByGap
	return r
}

// kept returns how many earlier attempts are needed: Max, and at least two in case the clock has
// stepped back.
func (o *Options) kept() int64 { return int64(max(2, o.Max)) }

// An attemptStore keeps the newest attempts of each ID.
type attemptStore interface {
	// attempt removes expired attempts and returns the input of a decision now. It adds the
	// current attempt if record is true.
	attempt(ctx context.Context, id string, now int64, record bool) (attempts, error)
	clear(ctx context.Context, id string) error
}

type attemptsOnRedis struct {
	client redis.UniversalClient
	o      Options
}

func (s *attemptsOnRedis) key(id string) string {
	return s.o.Prefix + ":{" + throttle.Escape(id) + "}:published"
}

// clockSlack is the extra life of a set: its expiry is on the server's clock, its entries on the
// clients' clocks.
const clockSlack = time.Minute

// attempt is one MULTI. The member is chosen before it is sent, so that a retry by the client
// after a lost reply does not count twice.
func (s *attemptsOnRedis) attempt(ctx context.Context, id string, now int64, record bool) (attempts, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	key, nth := s.key(id), int64(s.o.Max)
	pipe := s.client.TxPipeline()
	pipe.ZRemRangeByScore(ctx, key, "-inf", strconv.FormatInt(now-s.o.Interval.Microseconds(), 10))
	if record {
		pipe.ZRemRangeByRank(ctx, key, 0, -s.o.kept()-1)
		pipe.ZAdd(ctx, key, redis.Z{Score: float64(now), Member: rand.Text()})
		pipe.PExpire(ctx, key, s.o.Interval+time.Millisecond+clockSlack)
	} else {
		nth-- // the current one is not in the set
	}
	count := pipe.ZCard(ctx, key)
	newest := pipe.ZRangeWithScores(ctx, key, -2, -1)
	var first *redis.ZSliceCmd
	if nth > 0 {
		first = pipe.ZRangeWithScores(ctx, key, -nth, -nth)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return attempts{}, throttle.WrapStoreError("published: attempt", err)
	}
	a := attempts{count: int(count.Val()), current: now, nth: now}
	last := newest.Val()
	if record { // the newest entry replaces the current one, as published
		a.current = int64(last[len(last)-1].Score)
		last = last[:len(last)-1]
	} else {
		a.count++
	}
	if len(last) > 0 {
		a.previous = int64(last[len(last)-1].Score)
	}
	if first != nil && len(first.Val()) > 0 {
		a.nth = int64(first.Val()[0].Score)
	}
	return a, nil
}

func (s *attemptsOnRedis) clear(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	if err := s.client.Del(ctx, s.key(id)).Err(); err != nil {
		return throttle.WrapStoreError("published: clear", err)
	}
	return nil
}

// attemptsInMemory holds the unexpired attempts of each ID in order.
type attemptsInMemory struct {
	o   Options
	ids *kept[[]int64]
}

func newAttemptsInMemory(o Options) *attemptsInMemory {
	s := &attemptsInMemory{o: o}
	s.ids = newKept(func(all []int64, now int64) bool { return len(s.live(all, now)) == 0 })
	return s
}

func (s *attemptsInMemory) attempt(_ context.Context, id string, now int64, record bool) (a attempts, err error) {
	s.ids.change(id, now, func(known *[]int64) {
		all := s.live(*known, now)
		n := len(all)
		if record {
			all = all[max(0, n-int(s.o.kept())):]
			at, _ := slices.BinarySearch(all, now+1)
			all = slices.Insert(all, at, now)
			*known = all
		} else {
			*known, all = all, append(all[:n:n], now)
		}
		a = attempts{count: len(all), current: all[len(all)-1]}
		if a.count > 1 {
			a.previous = all[a.count-2]
		}
		if a.count >= s.o.Max {
			a.nth = all[a.count-s.o.Max]
		}
	})
	return a, nil
}

// live returns the unexpired attempts.
func (s *attemptsInMemory) live(all []int64, now int64) []int64 {
	from, _ := slices.BinarySearch(all, now-s.o.Interval.Microseconds()+1)
	return all[from:]
}

func (s *attemptsInMemory) clear(_ context.Context, id string) error {
	s.ids.forget(id)
	return nil
}
