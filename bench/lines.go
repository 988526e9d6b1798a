package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/throttle"
)

// compareLines measures how long Redis works for one user's line, by its own
// account: for each of a hundred arrivals behind so many who wait, and to place
// all of these anew when their limits have changed.
func compareLines(ctx context.Context, r *run) (map[string]any, error) {
	client := r.client(4)
	defer client.Close()
	arrival, replace := map[string]any{}, map[string]any{}
	for _, n := range []int{100, 1000} {
		var arrivals, replaces []float64
		for round := range r.rounds {
			limiter, err := throttle.New(client, throttle.Options{Prefix: fmt.Sprintf("%s:lines-%d-%d", r.prefix, n, round)})
			if err != nil {
				return nil, err
			}
			a, p, err := line(ctx, client, limiter, n)
			limiter.Close()
			if err != nil {
				return nil, err
			}
			arrivals, replaces = append(arrivals, a), append(replaces, p)
		}
		name := strconv.Itoa(n)
		arrival[name], replace[name] = round(median(arrivals), 1), round(median(replaces), 2)
		fmt.Fprintf(os.Stderr, "%5d waiting: an arrival takes %v µs of Redis, placing all anew %v ms\n", n, arrival[name], replace[name])
		r.clean()
	}
	return map[string]any{"arrival_us": arrival, "replace_ms": replace}, nil
}

// line answers the µs of an arrival and the ms of placing all anew.
func line(ctx context.Context, client *redis.Client, limiter throttle.Planner, n int) (arrival, replace float64, err error) {
	paced := func(gap time.Duration, period time.Duration) []throttle.Scope {
		return []throttle.Scope{{Name: throttle.General, Policy: throttle.Policy{MinGap: gap, Rates: []throttle.Rate{{Count: 10, Period: period}}}}}
	}
	const arrivals = 100
	const horizon = 30 * 24 * time.Hour
	arrive := func(n int) error {
		for range n {
			_, err := limiter.Acquire(ctx, throttle.Request{
				App: "bench", User: "line", ID: id(next.Add(1)), Scopes: paced(time.Second, time.Minute), Horizon: horizon,
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err = arrive(1 + n); err != nil { // the first one is admitted
		return 0, 0, err
	}
	spent, err := scriptTime(ctx, client, func() error { return arrive(arrivals) })
	if err != nil {
		return 0, 0, err
	}
	arrival = float64(spent.Microseconds()) / arrivals
	spent, err = scriptTime(ctx, client, func() error {
		_, err := limiter.Reschedule(ctx, throttle.Request{App: "bench", User: "line", Scopes: paced(500*time.Millisecond, 30*time.Second), Horizon: horizon})
		return err
	})
	return arrival, float64(spent.Microseconds()) / 1000, err
}

// scriptTime answers how long Redis has worked at scripts and transactions while
// f ran.
func scriptTime(ctx context.Context, client *redis.Client, f func() error) (time.Duration, error) {
	before, err := scripts(ctx, client)
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := scripts(ctx, client)
	return after - before, err
}

func scripts(ctx context.Context, client *redis.Client) (time.Duration, error) {
	stats, err := client.InfoMap(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	sum := 0
	for _, name := range []string{"eval", "evalsha", "exec"} {
		var calls, usec int
		if text := stats["Commandstats"]["cmdstat_"+name]; text != "" {
			if _, err := fmt.Sscanf(text, "calls=%d,usec=%d", &calls, &usec); err != nil {
				return 0, fmt.Errorf("redis: INFO commandstats: %s: %w", name, err)
			}
		}
		sum += usec
	}
	return time.Duration(sum) * time.Microsecond, nil
}
