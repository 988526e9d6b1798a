package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"

	"github.com/pushpace/pushpace/throttle"
)

// roundTime is how long one contestant runs in one round.
const roundTime = 700 * time.Millisecond

// A contestant makes one check for the user; i identifies the check.
type contestant func(ctx context.Context, user string, i int64) error

// throttleBench compares the limiter with redis_rate, and with rolling-rate-limiter's algorithm
// as classic.
func throttleBench(ctx context.Context, r *run) (map[string]any, error) {
	goroutines := map[string]any{}
	for _, g := range []int{64, 256} {
		medians, err := r.compareChecks(ctx, g)
		if err != nil {
			return nil, err
		}
		goroutines[strconv.Itoa(g)] = medians
		r.clean()
	}
	bytes, err := bytesPerUser(ctx, r)
	if err != nil {
		return nil, err
	}
	trips, err := roundTrips(ctx, r)
	if err != nil {
		return nil, err
	}
	return map[string]any{"goroutines": goroutines, "bytes_per_user": bytes, "round_trips": trips}, nil
}

// id returns an ID of 26 characters at almost no cost, because not every contestant needs an ID.
func id(i int64) string {
	const zeros = "01J00000000000000000000000"
	digits := strconv.FormatInt(i, 10)
	return zeros[:len(zeros)-len(digits)] + digits
}

// lastNumber is the number of the run's last check or push.
var lastNumber atomic.Int64

// interleave runs the contestants in turns, and returns each one's median rate in checks per
// second.
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
			if round > 0 { // the first round warms up
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
			// goroutines share no user, so that no check is denied
			mine := users[g*len(users)/goroutines : (g+1)*len(users)/goroutines]
			for i := 0; ctx.Err() == nil && time.Since(start) < roundTime; i++ {
				if err := check(ctx, mine[i%len(mine)], lastNumber.Add(1)); err != nil {
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
			d, err := limiter.Acquire(ctx, throttle.Request{App: "bench", User: user, ID: id(lastNumber.Add(1)), Scopes: wide})
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

// roundTrips counts the round trips of a granted and of a deferred check.
func roundTrips(ctx context.Context, r *run) (map[string]any, error) {
	client := r.client(1)
	defer client.Close()
	limiter, err := throttle.New(client, throttle.Options{Prefix: r.prefix + ":trips"})
	if err != nil {
		return nil, err
	}
	defer limiter.Close()
	strict := []throttle.Scope{{Name: throttle.General, Policy: throttle.Policy{
		MinGap: 300 * time.Millisecond, Rates: []throttle.Rate{{Count: 10, Period: 5 * time.Second}},
	}}}
	acquire := func(user string) error {
		_, err := limiter.Acquire(ctx, throttle.Request{App: "bench", User: user, ID: id(lastNumber.Add(1)), Scopes: strict, Horizon: time.Hour})
		return err
	}
	if err := acquire("warm"); err != nil {
		return nil, err
	}
	const users = 200
	var granted, deferred float64
	for u := range users {
		user := "trips-" + strconv.Itoa(u)
		for _, sum := range []*float64{&granted, &deferred} {
			before := limiter.RoundTrips()
			if err := acquire(user); err != nil {
				return nil, err
			}
			*sum += float64(limiter.RoundTrips() - before)
		}
	}
	return map[string]any{"granted": granted / users, "deferred": deferred / users}, nil
}

// Each contestant allows a user most checks in any longest, so that it grants nearly all checks.
const (
	longest = 2 * time.Second
	most    = 1000
)

// paced is our policy in the comparison: a gap and two rates.
var paced = []throttle.Scope{{Name: throttle.General, Policy: throttle.Policy{
	MinGap: 100 * time.Microsecond,
	Rates:  []throttle.Rate{{Count: most / 2, Period: longest / 2}, {Count: most, Period: longest}},
}}}

// compareChecks returns the contestants' checks per second.
func (r *run) compareChecks(ctx context.Context, goroutines int) (map[string]float64, error) {
	client := r.client(goroutines)
	defer client.Close()
	limiter, err := throttle.New(client, throttle.Options{Prefix: r.prefix + ":ours"})
	if err != nil {
		return nil, err
	}
	defer limiter.Close()
	rated, limit := redis_rate.NewLimiter(client), redis_rate.Limit{Rate: most, Burst: most, Period: longest}
	classic := newWindow(client, r.prefix+":classic:", throttle.Policy{Rates: []throttle.Rate{{Count: 1_000_000, Period: longest}}})
	var checks, refused atomic.Int64
	medians, err := r.interleave(ctx, goroutines, 1000, []string{"ours", "redis_rate", "classic"}, map[string]contestant{
		"ours": func(ctx context.Context, user string, i int64) error {
			checks.Add(1)
			d, err := limiter.Acquire(ctx, throttle.Request{App: "bench", User: user, ID: id(i), Scopes: paced})
			if err == nil && d.Status != throttle.Granted {
				refused.Add(1)
			}
			return err
		},
		"redis_rate": func(ctx context.Context, user string, _ int64) error {
			answer, err := rated.Allow(ctx, r.prefix+":rate:"+user, limit)
			return granted(err, answer != nil && answer.Allowed == 1)
		},
		"classic": func(ctx context.Context, user string, i int64) error {
			left, err := classic.check(ctx, user, id(i))
			return granted(err, left == 0)
		},
	})
	if n := refused.Load(); err == nil && n > checks.Load()/100 {
		return nil, fmt.Errorf("ours: %d of %d checks were refused: the machine is too busy to compare", n, checks.Load())
	}
	return medians, err
}
