package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

// burstJobs is how many one producer hands over for one user while two workers run.
const burstJobs = 200

// alike is how close together two notifications were accepted that may swap when the one
// that leaves first has not waited: it does not wait for what it does not know of.
const alike = 20 * time.Millisecond

// burstBench tells how many of a burst left after one that was accepted later: where all
// but the first wait for a limit, and where none does.
func burstBench(ctx context.Context, s stage) (map[string]any, error) {
	paced := throttle.Policy{MinGap: 25 * time.Millisecond, Rates: []throttle.Rate{{Count: 50, Period: time.Second}}}
	wide := throttle.Policy{Rates: []throttle.Rate{{Count: throttle.MaxUserCount, Period: time.Second}}}
	waited, checks, err := burst(ctx, s, paced, 1)
	s.clear()
	if err != nil {
		return nil, fmt.Errorf("burst: %w", err)
	}
	first, _, err := burst(ctx, s, wide, burstJobs)
	s.clear()
	if err != nil {
		return nil, fmt.Errorf("burst: %w", err)
	}
	return map[string]any{
		"inversions": waited, "first_inversions": first,
		"checks_per_delivery": round(float64(checks)/burstJobs, 3),
	}, nil
}

// burst answers how many left after one that was accepted later, and the number of
// checks. So many leave without a wait.
func burst(ctx context.Context, s stage, policy throttle.Policy, free int) (inversions int, checks int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, backlogLimit)
	defer cancel()
	sent, count := new(instants), newTally(burstJobs)
	var producer *push.Producer
	for range 2 {
		sys, err := openSystem(ctx, s, config.Limits{Default: policy}, sent, count)
		if err != nil {
			return 0, 0, err
		}
		defer func() { _ = sys.close() }()
		if err := sys.worker.Start(ctx); err != nil {
			return 0, 0, err
		}
		defer func() { _ = sys.worker.Stop(context.Background()) }()
		producer = sys.producer
	}
	accepted := map[string]time.Time{}
	for i := range burstJobs {
		n := notification(i, 1)
		accepted[n.ID] = time.Now()
		if _, err := producer.Enqueue(ctx, n); err != nil {
			return 0, 0, err
		}
	}
	if err := count.wait(ctx); err != nil {
		return 0, 0, err
	}
	var latest time.Time // accepted, of those that have left and may not swap
	for i, id := range sent.ids {
		at := accepted[id]
		if latest.After(at) {
			inversions++
		}
		if i < free {
			at = at.Add(-alike)
		}
		if at.After(latest) {
			latest = at
		}
	}
	return inversions, count.checks.Load(), nil
}
