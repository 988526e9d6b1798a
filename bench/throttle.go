package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/throttle"
)

// roundTime is how long one contestant runs in one round.
const roundTime = 700 * time.Millisecond

// A contestant makes one check for the user; i tells checks apart.
type contestant func(ctx context.Context, user string, i int64) error

func throttleBench(ctx context.Context, r *run) (map[string]any, error) {
	goroutines, err := compareGoroutines(ctx, r)
	if err != nil {
		return nil, err
	}
	busy, err := besideBusyLoops(ctx, r)
	if err != nil {
		return nil, err
	}
	entries, err := compareEntries(ctx, r)
	if err != nil {
		return nil, err
	}
	bytes, err := bytesPerUser(ctx, r)
	if err != nil {
		return nil, err
	}
	trips, err := roundTrips(ctx, r)
	if err != nil {
		return nil, err
	}
	lines, err := compareLines(ctx, r)
	if err != nil {
		return nil, err
	}
	return map[string]any{"goroutines": goroutines, "busy": busy, "entries": entries, "bytes_per_user": bytes, "round_trips": trips, "lines": lines}, nil
}

// id answers an ID of 26 characters, at next to no cost: not every contestant has one.
func id(i int64) string {
	const zeros = "01J00000000000000000000000"
	digits := strconv.FormatInt(i, 10)
	return zeros[:len(zeros)-len(digits)] + digits
}

// next tells all checks of a run apart.
var next atomic.Int64

// interleave runs the contestants in turns, and answers the median of each in
// checks per second.
func (r *run) interleave(ctx context.Context, goroutines, users int, names []string, contestants map[string]contestant) (map[string]float64, error) {
	who := make([]string, users)
	for i := range who {
		who[i] = "user-" + strconv.Itoa(i)
	}
	rates := map[string][]float64{}
	for round := range r.rounds + 1 {
		for turn := range names {
			name := names[(turn+round)%len(names)]
			rate, err := pound(ctx, goroutines, who, contestants[name])
			if err != nil {
				return nil, err
			}
			if round > 0 { // the first one warms up
				rates[name] = append(rates[name], rate)
			}
		}
	}
	medians := map[string]float64{}
	for name, samples := range rates {
		medians[name] = float64(int64(median(samples)))
		fmt.Fprintf(os.Stderr, "%4d goroutines, %5d users: %-22s %8.0f/s\n", goroutines, users, name, medians[name])
	}
	return medians, nil
}

func pound(ctx context.Context, goroutines int, users []string, check contestant) (float64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var done atomic.Int64
	start := time.Now()
	for g := range goroutines {
		wg.Go(func() {
			// each goroutine has users of its own, so that no check waits for a limit
			mine := users[g*len(users)/goroutines : (g+1)*len(users)/goroutines]
			for i := 0; ctx.Err() == nil && time.Since(start) < roundTime; i++ {
				if err := check(ctx, mine[i%len(mine)], next.Add(1)); err != nil {
					cancel(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(start).Seconds(), context.Cause(ctx)
}

func compareEntries(ctx context.Context, r *run) (map[string]any, error) {
	const goroutines, users = 64, 64
	client := r.client(goroutines)
	defer client.Close()
	names := []string{"10", "1000", "classic_1000"}
	contestants := map[string]contestant{}
	for _, n := range []int{10, 1000} {
		// the second rate reads the oldest of n entries
		scopes := []throttle.Scope{{Name: throttle.General, Policy: throttle.Policy{
			MinGap: time.Microsecond,
			Rates:  []throttle.Rate{{Count: 1000, Period: 100 * time.Millisecond}, {Count: n, Period: time.Millisecond}},
		}}}
		prefix := fmt.Sprintf("%s:entries-%d", r.prefix, n)
		if err := preload(ctx, client, users, n, func(user string) string { return prefix + ":{bench/" + user + "}:sent" }); err != nil {
			return nil, err
		}
		limiter, err := throttle.New(client, throttle.Options{Prefix: prefix})
		if err != nil {
			return nil, err
		}
		defer limiter.Close()
		contestants[strconv.Itoa(n)] = windowed(limiter, scopes)
	}
	prefix := r.prefix + ":classic-1000:"
	if err := preload(ctx, client, users, 1000, func(user string) string { return prefix + user }); err != nil {
		return nil, err
	}
	contestants["classic_1000"] = classic(client, prefix, 24*time.Hour)
	medians, err := r.interleave(ctx, goroutines, users, names, contestants)
	figures := map[string]any{}
	for name, rate := range medians {
		figures[name] = rate
	}
	return figures, err
}

// windowed is a check whose answer does not matter, only what it reads.
func windowed(l throttle.Limiter, scopes []throttle.Scope) contestant {
	return func(ctx context.Context, user string, i int64) error {
		_, err := l.Acquire(ctx, throttle.Request{App: "bench", User: user, ID: id(i), Scopes: scopes})
		return err
	}
}

// preload gives each user's set n entries of the last minutes.
func preload(ctx context.Context, client redis.UniversalClient, users, n int, key func(user string) string) error {
	start := time.Now().Add(-10 * time.Minute).UnixMicro()
	for u := range users {
		set := key("user-" + strconv.Itoa(u))
		for done := 0; done < n; {
			batch := make([]redis.Z, 0, 1000)
			for ; done < n && len(batch) < cap(batch); done++ {
				batch = append(batch, redis.Z{Score: float64(start + int64(done)*1000), Member: id(next.Add(1))})
			}
			if err := client.ZAdd(ctx, set, batch...).Err(); err != nil {
				return err
			}
		}
		if err := client.Expire(ctx, set, time.Hour).Err(); err != nil {
			return err
		}
	}
	return nil
}

// bytesPerUser measures Redis's memory for all keys of a user with that many
// admissions in one scope.
func bytesPerUser(ctx context.Context, r *run) (map[string]any, error) {
	client := r.client(4)
	defer client.Close()
	prefix := r.prefix + ":bytes"
	limiter, err := throttle.New(client, throttle.Options{Prefix: prefix})
	if err != nil {
		return nil, err
	}
	defer limiter.Close()
	figures := map[string]any{}
	wide := []throttle.Scope{{Name: throttle.General, Policy: throttle.Policy{Rates: []throttle.Rate{{Count: 1000, Period: time.Hour}}}}}
	for _, n := range []int{10, 100, 1000} {
		user := fmt.Sprintf("user-%d", n)
		for range n {
			d, err := limiter.Acquire(ctx, throttle.Request{App: "bench", User: user, ID: id(next.Add(1)), Scopes: wide})
			if err != nil {
				return nil, err
			}
			if d.Status != throttle.Granted {
				return nil, fmt.Errorf("ours: %s by %s %s", d.Status, d.Scope, d.Rule)
			}
		}
		var total int64
		keys := client.Scan(ctx, 0, prefix+":{bench/"+user+"}*", 10_000).Iterator()
		for keys.Next(ctx) {
			bytes, err := client.MemoryUsage(ctx, keys.Val(), 0).Result()
			if err != nil {
				return nil, err
			}
			total += bytes
		}
		if err := keys.Err(); err != nil {
			return nil, err
		}
		figures[strconv.Itoa(n)] = total
	}
	return figures, nil
}

// roundTrips counts round trips per acquire: granted, deferred without
// contention, and with 64 goroutines on one user.
func roundTrips(ctx context.Context, r *run) (map[string]any, error) {
	client := r.client(64)
	defer client.Close()
	limiter, err := throttle.New(client, throttle.Options{Prefix: r.prefix + ":trips"})
	if err != nil {
		return nil, err
	}
	defer limiter.Close()
	strict := []throttle.Scope{{Name: throttle.General, Policy: throttle.Policy{
		MinGap: 300 * time.Millisecond, Rates: []throttle.Rate{{Count: 10, Period: 5 * time.Second}},
	}}}
	acquire := func(user string) (throttle.Status, error) {
		d, err := limiter.Acquire(ctx, throttle.Request{App: "bench", User: user, ID: id(next.Add(1)), Scopes: strict, Horizon: time.Hour})
		return d.Status, err
	}
	if _, err := acquire("warm"); err != nil {
		return nil, err
	}
	const users = 200
	var granted, deferred float64
	for u := range users {
		user := "trips-" + strconv.Itoa(u)
		for _, sum := range []*float64{&granted, &deferred} {
			before := limiter.RoundTrips()
			if _, err := acquire(user); err != nil {
				return nil, err
			}
			*sum += float64(limiter.RoundTrips() - before)
		}
	}
	before := limiter.RoundTrips()
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	for range 64 {
		wg.Go(func() {
			for range 10 {
				if _, err := acquire("contended"); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	return map[string]any{
		"granted": granted / users, "deferred": deferred / users,
		"contended": float64(limiter.RoundTrips()-before) / 640,
	}, nil
}
