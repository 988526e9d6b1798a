package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/throttle"
	meters "github.com/pushpace/pushpace/throttle/meter"
)

// wide allows more than a contestant can request, so that every check is granted.
var wide = throttle.Rate{Count: 1_000_000, Period: 5 * time.Second}

// limitersBench compares the algorithms of throttle/meter with redis_rate, on many keys and on one
// hot key. It also measures the memory of a key.
func limitersBench(ctx context.Context, r *run) (map[string]any, error) {
	names := []string{"redis_rate"}
	for _, a := range meters.Algorithms {
		names = append(names, string(a))
	}
	algorithms := map[string]map[string]any{}
	for _, name := range names {
		algorithms[name] = map[string]any{"hot": map[string]float64{}}
	}
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
		}
	}
	for _, name := range names {
		bytes, err := r.limiterBytes(ctx, name)
		if err != nil {
			return nil, err
		}
		algorithms[name]["bytes"] = bytes
	}
	return map[string]any{"algorithms": algorithms}, nil
}

func (r *run) compareLimiters(ctx context.Context, goroutines int, hot bool, names []string) (map[string]float64, error) {
	contestants := map[string]contestant{}
	for _, name := range names {
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
	return r.interleave(ctx, goroutines, 1000, names, contestants)
}

// limiter returns the named contestant and a function that closes it. Our limiters share pipelines,
// as in a worker.
func (r *run) limiter(name string, goroutines int, rate throttle.Rate) (contestant, func(), error) {
	client := r.client(goroutines)
	stop := func() { _ = client.Close() }
	prefix := r.prefix + ":" + name
	if name == "redis_rate" {
		l, limit := redis_rate.NewLimiter(client), redis_rate.Limit{Rate: rate.Count, Burst: rate.Count, Period: rate.Period}
		return func(ctx context.Context, key string, _ int64) error {
			answer, err := l.Allow(ctx, prefix+key, limit)
			return granted(err, answer != nil && answer.Allowed == 1)
		}, stop, nil
	}
	spec, ask := meters.Spec{Algorithm: meters.Algorithm(name), Rates: []throttle.Rate{rate}}, meters.Ask{Least: 1, Most: 1}
	if spec.Algorithm == meters.LeakyBucket {
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

// limiterBytes measures the memory of one key in Redis, after requests over more than a period, so
// that no cell of a window is empty.
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
		if err != nil && !errors.Is(err, redis.Nil) { // Nil: the key has just expired
			return 0, err
		}
		sum += bytes
	}
	return sum, nil
}
