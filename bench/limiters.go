package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/throttle"
	meters "github.com/pushpace/pushpace/throttle/meter"
)

// wide is above what a contestant can ask for: each check is granted.
var wide = throttle.Rate{Count: 1_000_000, Period: 5 * time.Second}

// others are the libraries that do the same.
var others = []string{"redis_rate", "ulule", "throttled"}

// limitersBench compares meters with other limiters on Redis: with keys of their own for
// all goroutines, and with one that all ask for.
func limitersBench(ctx context.Context, r *run) (map[string]any, error) {
	names := slices.Clone(others)
	for _, a := range meters.Algorithms {
		names = append(names, string(a))
	}
	algorithms := map[string]map[string]any{}
	for _, name := range names {
		algorithms[name] = map[string]any{"hot": map[string]float64{}}
	}
	var twoOverOne float64
	for _, g := range []int{1, 10, 100} {
		for _, hot := range []bool{false, true} {
			if hot && g == 1 {
				continue
			}
			medians, err := r.compareLimiters(ctx, g, hot, names)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				if hot {
					algorithms[name]["hot"].(map[string]float64)[strconv.Itoa(g)] = medians[name]
				} else {
					algorithms[name][strconv.Itoa(g)] = medians[name]
				}
			}
			if g == 100 && !hot {
				twoOverOne = medians[string(meters.FixedWindow)] / medians[twoRates]
			}
		}
	}
	for _, name := range names {
		bytes, err := r.limiterBytes(ctx, name)
		if err != nil {
			return nil, err
		}
		algorithms[name]["bytes"] = bytes
	}
	figures := map[string]any{"algorithms": algorithms, "two_rates_over_one": round(twoOverOne, 3)}
	return figures, r.compareLeases(ctx, figures)
}

// twoRates is the contestant that checks two rates at once.
const twoRates = "two_rates"

func (r *run) compareLimiters(ctx context.Context, goroutines int, hot bool, names []string) (map[string]float64, error) {
	contestants := map[string]contestant{}
	all := append(slices.Clone(names), twoRates)
	for _, name := range all {
		check, stop, err := r.limiter(name, goroutines, wide)
		if err != nil {
			return nil, err
		}
		defer stop()
		contestants[name] = check
		if hot {
			contestants[name] = func(ctx context.Context, _ string, i int64) error { return check(ctx, "hot", i) }
		}
	}
	defer r.clean()
	return r.interleave(ctx, goroutines, 1000, all, contestants)
}

// limiter returns the contestant of that name, and what ends it. Ours has its commands
// share pipelines, as they do in a worker.
func (r *run) limiter(name string, goroutines int, rate throttle.Rate) (contestant, func(), error) {
	client := r.client(goroutines)
	stop := func() { _ = client.Close() }
	prefix := r.prefix + ":" + name
	switch name {
	case "redis_rate":
		l, limit := redis_rate.NewLimiter(client), redis_rate.Limit{Rate: rate.Count, Burst: rate.Count, Period: rate.Period}
		return func(ctx context.Context, key string, _ int64) error {
			answer, err := l.Allow(ctx, prefix+key, limit)
			return granted(err, answer != nil && answer.Allowed == 1)
		}, stop, nil
	case "ulule":
		store, err := ululeredis.NewStoreWithOptions(client, ulule.StoreOptions{Prefix: prefix})
		if err != nil {
			return nil, stop, err
		}
		l := ulule.New(store, ulule.Rate{Period: rate.Period, Limit: int64(rate.Count)})
		return func(ctx context.Context, key string, _ int64) error {
			answer, err := l.Get(ctx, key)
			return granted(err, !answer.Reached)
		}, stop, nil
	case "throttled":
		store, err := goredisstore.NewCtx(client, prefix)
		if err != nil {
			return nil, stop, err
		}
		l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
			MaxRate: throttled.PerDuration(rate.Count, rate.Period), MaxBurst: rate.Count - 1,
		})
		if err != nil {
			return nil, stop, err
		}
		l.SetMaxCASAttemptsLimit(math.MaxInt) // it gives up after ten, on a hot key
		return func(ctx context.Context, key string, _ int64) error {
			limited, _, err := l.RateLimitCtx(ctx, key, 1)
			return granted(err, !limited)
		}, stop, nil
	}
	spec, ask := meters.Spec{Algorithm: meters.Algorithm(name), Rates: []throttle.Rate{rate}}, meters.Ask{Least: 1, Most: 1}
	switch name {
	case twoRates:
		spec.Algorithm, spec.Rates = meters.FixedWindow, append(spec.Rates, throttle.Rate{Count: rate.Count, Period: rate.Period / 2})
	case string(meters.LeakyBucket):
		ask.Ahead = rate.Period
	}
	shared, end := pipeline.Share(client, pipeline.Options{Timeout: 10 * time.Second})
	m := meters.NewRedis(shared, prefix)
	return func(ctx context.Context, key string, _ int64) error {
		answer, err := m.Take(ctx, key, spec, ask)
		return granted(err, answer.Units == 1)
	}, func() { end(); stop() }, nil
}

var errDenied = errors.New("denied")

func granted(err error, yes bool) error {
	if err == nil && !yes {
		return errDenied
	}
	return err
}

// limiterBytes measures Redis's memory for a key that was asked for in each part of a
// period.
func (r *run) limiterBytes(ctx context.Context, name string) (int64, error) {
	defer r.clean()
	check, stop, err := r.limiter(name, 1, throttle.Rate{Count: 1000, Period: time.Second})
	if err != nil {
		return 0, err
	}
	defer stop()
	for i := range 25 {
		if err := check(ctx, "user-1234", int64(i)); err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err := check(ctx, "user-1234", 25); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	keys, err := r.admin.Keys(ctx, "*"+r.prefix+"*").Result()
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, key := range keys {
		bytes, err := r.admin.MemoryUsage(ctx, key, 0).Result()
		if err != nil && !errors.Is(err, redis.Nil) { // it has just expired
			return 0, err
		}
		sum += bytes
	}
	return sum, nil
}

// compareLeases measures what units cost that a process has leased ahead, beside those of
// which each is asked for alone, and together with others on the way; how a ramp begins,
// and how long critical ones wait where bulk uses all that there is.
func (r *run) compareLeases(ctx context.Context, figures map[string]any) error {
	const goroutines = 100
	client := r.client(goroutines)
	defer client.Close()
	shared, end := pipeline.Share(client, pipeline.Options{Timeout: 10 * time.Second})
	defer end()
	m := meters.NewRedis(shared, r.prefix)
	plenty := meters.Spec{Rates: []throttle.Rate{{Count: 1_000_000, Period: 50 * time.Millisecond}}}.Promise()
	pools := meters.NewPools(m)
	defer pools.Close()
	pool := pools.Of("leased", func() meters.Spec { return plenty })
	alone := meters.NewRedis(client, r.prefix)
	unleased := func(m *meters.Redis) contestant {
		return func(ctx context.Context, _ string, _ int64) error {
			answer, err := m.Take(ctx, "unleased", plenty, meters.Ask{Least: 1, Most: 1})
			return granted(err, answer.Units == 1)
		}
	}
	names := []string{"leased", "together", "unleased"}
	medians, err := r.interleave(ctx, goroutines, goroutines, names, map[string]contestant{
		"leased": func(ctx context.Context, _ string, _ int64) error {
			for ctx.Err() == nil {
				if _, lacking := pools.Take(ctx, []meters.Need{{Pool: pool, Units: 1}}, meters.Ordinary, time.Second); lacking == nil {
					return nil
				}
				time.Sleep(time.Millisecond) // too many wait, as it has just begun
			}
			return ctx.Err()
		},
		"together": unleased(m),
		"unleased": unleased(alone),
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		figures[name] = medians[name]
	}
	first, err := r.rampFirstSecond(ctx, m)
	if err != nil {
		return err
	}
	figures["ramp_first_second"] = round(first, 3)
	p99, err := r.criticalWait(ctx, m)
	figures["critical_wait_p99_ms"] = round(p99, 2)
	fmt.Fprintf(os.Stderr, "a ramp's first second: %.3f of the rate; critical ones wait for %.2f ms at p99\n", first, p99)
	return err
}

// rampFirstSecond returns what part of the rate passes in the first second after silence.
func (r *run) rampFirstSecond(ctx context.Context, m meters.Meter) (float64, error) {
	spec := meters.Spec{Rates: []throttle.Rate{{Count: 600_000, Period: time.Minute}}, Ramp: time.Minute}.Promise()
	var parts []float64
	for round := range r.rounds {
		units := 0
		for start := time.Now(); time.Since(start) < time.Second; time.Sleep(5 * time.Millisecond) {
			answer, err := m.Take(ctx, "ramp-"+strconv.Itoa(round), spec, meters.Ask{Most: 10_000})
			if err != nil {
				return 0, err
			}
			units += answer.Units
		}
		parts = append(parts, float64(units)/10_000)
	}
	return median(parts), nil
}

// criticalWait returns for how many ms a critical one of a hundred waits for a unit, while
// two processes' bulk takes all.
func (r *run) criticalWait(ctx context.Context, m meters.Meter) (float64, error) {
	spec := meters.Spec{Rates: []throttle.Rate{{Count: 6000, Period: 6 * time.Second}}}.Promise()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.rounds)*time.Second)
	defer cancel()
	var bulk sync.WaitGroup
	var waits []time.Duration
	for process := range 2 {
		pools := meters.NewPools(m)
		defer pools.Close()
		need := []meters.Need{{Pool: pools.Of("critical", func() meters.Spec { return spec }), Units: 1}}
		for range 64 {
			bulk.Go(func() {
				for ctx.Err() == nil {
					pools.Take(ctx, slices.Clone(need), meters.Ordinary, time.Second)
				}
			})
		}
		if process > 0 {
			continue
		}
		bulk.Go(func() {
			for ctx.Err() == nil {
				start := time.Now()
				if _, lacking := pools.Take(ctx, slices.Clone(need), meters.Urgent, time.Second); lacking == nil || ctx.Err() == nil {
					waits = append(waits, time.Since(start))
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	bulk.Wait()
	if len(waits) < 100 {
		return 0, fmt.Errorf("critical: %d asks are too few", len(waits))
	}
	slices.Sort(waits)
	return float64(waits[len(waits)*99/100].Microseconds()) / 1000, nil
}
