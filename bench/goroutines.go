package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/throttle"
)

// longest is the longest period of the comparison's limits, and most is what each
// contestant allows a user in it: next to every check is granted.
const (
	longest = 2 * time.Second
	most    = 1000
)

// paced is the policy of the comparison: a gap and two rates.
var paced = []throttle.Scope{{Name: throttle.General, Policy: throttle.Policy{
	MinGap: 100 * time.Microsecond,
	Rates:  []throttle.Rate{{Count: most / 2, Period: longest / 2}, {Count: most, Period: longest}},
}}}

// busyLoops is how many processes take what processor they get, beside the contestants.
const busyLoops = 2

// spinCommand is how this program is run to be one of them.
const spinCommand = "spin"

// spin works at nothing until its input ends.
func spin() error {
	var ended atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		ended.Store(true)
	}()
	for !ended.Load() {
	}
	return nil
}

// besideBusyLoops compares the contestants while others want the processors too.
func besideBusyLoops(ctx context.Context, r *run) (_ map[string]any, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for range busyLoops {
		loop := exec.CommandContext(ctx, self, spinCommand)
		input, err := loop.StdinPipe()
		if err != nil {
			return nil, err
		}
		if err := loop.Start(); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, input.Close(), loop.Wait()) }()
	}
	fmt.Fprintf(os.Stderr, "beside %d busy loops:\n", busyLoops)
	return compareGoroutines(ctx, r)
}

func compareGoroutines(ctx context.Context, r *run) (map[string]any, error) {
	figures := map[string]any{}
	for _, g := range []int{64, 256} {
		medians, err := r.compareChecks(ctx, g)
		if err != nil {
			return nil, err
		}
		figures[strconv.Itoa(g)] = medians
		r.clean()
	}
	return figures, nil
}

// compareChecks answers the contestants' checks per second, and which share of ours took
// the script.
func (r *run) compareChecks(ctx context.Context, goroutines int) (map[string]float64, error) {
	client := r.client(goroutines)
	defer client.Close()
	alone := r.client(goroutines)
	defer alone.Close()
	piped, err := alone.AutoPipeline()
	if err != nil {
		return nil, err
	}
	defer piped.Close()
	limiter, err := throttle.New(client, throttle.Options{Prefix: r.prefix + ":ours"})
	if err != nil {
		return nil, err
	}
	defer limiter.Close()
	var checks, refused, rates atomic.Int64
	before, err := evals(ctx, r.admin)
	if err != nil {
		return nil, err
	}
	names := []string{"ours", "redis_rate", "redis_rate_pipelined", "classic"}
	medians, err := r.interleave(ctx, goroutines, 1000, names, map[string]contestant{
		"ours":                 ours(limiter, paced, &checks, &refused),
		"redis_rate":           rated(redis_rate.NewLimiter(client), r.prefix+":rate:", &rates),
		"redis_rate_pipelined": rated(redis_rate.NewLimiter(piped), r.prefix+":piped:", &rates),
		"classic":              classic(client, r.prefix+":classic:", longest),
	})
	if err != nil {
		return nil, err
	}
	after, err := evals(ctx, r.admin)
	if err != nil {
		return nil, err
	}
	if n := refused.Load(); n > checks.Load()/100 {
		return nil, fmt.Errorf("ours: %d of %d checks were refused: the machine is too busy to compare", n, checks.Load())
	}
	medians["ours_script_share"] = round(float64(after-before-rates.Load())/float64(checks.Load()), 3)
	fmt.Fprintf(os.Stderr, "%4d goroutines: %v of ours took the script, %d of %d were refused\n",
		goroutines, medians["ours_script_share"], refused.Load(), checks.Load())
	return medians, nil
}

// evals answers how many scripts Redis has run.
func evals(ctx context.Context, client *redis.Client) (int64, error) {
	stats, err := client.InfoMap(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	var calls int64
	if text := stats["Commandstats"]["cmdstat_evalsha"]; text != "" {
		if _, err := fmt.Sscanf(text, "calls=%d", &calls); err != nil {
			return 0, fmt.Errorf("redis: INFO commandstats: evalsha: %w", err)
		}
	}
	return calls, nil
}

// ours counts its checks, and those of them that were not granted.
func ours(l throttle.Limiter, scopes []throttle.Scope, checks, refused *atomic.Int64) contestant {
	return func(ctx context.Context, user string, i int64) error {
		checks.Add(1)
		d, err := l.Acquire(ctx, throttle.Request{App: "bench", User: user, ID: id(i), Scopes: scopes})
		if err == nil && d.Status != throttle.Granted {
			refused.Add(1)
		}
		return err
	}
}

// rated counts its checks: each takes one script.
func rated(l *redis_rate.Limiter, prefix string, checks *atomic.Int64) contestant {
	limit := redis_rate.Limit{Rate: most, Burst: most, Period: longest}
	return func(ctx context.Context, user string, _ int64) error {
		checks.Add(1)
		answer, err := l.Allow(ctx, prefix+user, limit)
		if err == nil && answer.Allowed != 1 {
			err = fmt.Errorf("redis_rate: denied")
		}
		return err
	}
}

// classic is the published algorithm: the whole window travels on every check.
func classic(client redis.UniversalClient, prefix string, window time.Duration) contestant {
	return func(ctx context.Context, user string, i int64) error {
		key, now := prefix+user, time.Now().UnixMicro()
		pipe := client.TxPipeline()
		pipe.ZRemRangeByScore(ctx, key, "0", strconv.FormatInt(now-window.Microseconds(), 10))
		pipe.ZAdd(ctx, key, redis.Z{Score: float64(now), Member: id(i)})
		set := pipe.ZRangeWithScores(ctx, key, 0, -1)
		pipe.PExpire(ctx, key, window)
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		if len(set.Val()) > 1_000_000 {
			return fmt.Errorf("classic: denied")
		}
		return nil
	}
}
