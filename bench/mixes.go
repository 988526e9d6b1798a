package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/throttle"
)

// A mix is what waits for one user in several categories, each with limits of its
// own below the general ones. They are those of the schedule suite, with as many
// notifications as fit into a quarter of a minute, and marketing's periods a tenth.
type mix struct {
	name    string
	general throttle.Policy
	own     []throttle.Policy
	jobs    []int // of each category
}

func mixes() []mix {
	gap := func(gap time.Duration, rates ...throttle.Rate) throttle.Policy {
		return throttle.Policy{MinGap: gap, Rates: rates}
	}
	rate := func(n int, period time.Duration) throttle.Rate { return throttle.Rate{Count: n, Period: period} }
	const ms = time.Millisecond
	both := gap(300*ms, rate(20, 10*time.Second))
	return []mix{
		{"the general limits bind", gap(300 * ms), []throttle.Policy{gap(0, rate(20, 10*time.Second)), gap(500 * ms), {}}, []int{15, 15, 15}},
		{"one category is slow", both, []throttle.Policy{gap(3 * time.Second), {}, {}}, []int{5, 12, 12}},
		{"the categories bind", both, []throttle.Policy{gap(0, rate(5, 10*time.Second)), gap(2 * time.Second), gap(0, rate(4, 5*time.Second))}, []int{8, 7, 10}},
		{"all bind in turn", both, []throttle.Policy{gap(0, rate(5, 10*time.Second)), gap(2 * time.Second), gap(0, rate(8, 5*time.Second))}, []int{8, 7, 18}},
		{"marketing and chat", gap(100*ms, rate(10, 6*time.Second)), []throttle.Policy{gap(0, rate(1, time.Minute)), {}, gap(6 * time.Second)}, []int{1, 20, 3}},
	}
}

// mixesBench tells the worst of the mixes, each once: the figures are ratios to a
// schedule.
func mixesBench(ctx context.Context, s stage) (map[string]any, error) {
	var drained, checks float64
	for _, m := range mixes() {
		ratio, each, err := m.run(ctx, s)
		s.clear()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		drained, checks = max(drained, ratio), max(checks, each)
		line, _ := json.Marshal(map[string]float64{"drain_ratio": round(ratio, 4), "checks_per_delivery": round(each, 3)})
		fmt.Fprintf(os.Stderr, "mix         %s: %s\n", m.name, line)
	}
	return map[string]any{"drain_ratio": round(drained, 4), "checks_per_delivery": round(checks, 3)}, nil
}

func category(i int) string { return fmt.Sprintf("category-%d", i) }

// arrivals are the categories of the mix's notifications, in turns.
func (m mix) arrivals() []int {
	var kinds []int
	left := slices.Clone(m.jobs)
	for more := true; more; {
		more = false
		for i := range left {
			if left[i] > 0 {
				left[i]--
				kinds, more = append(kinds, i), true
			}
		}
	}
	return kinds
}

// run returns how long the mix took over the ideal, and the checks of each.
func (m mix) run(ctx context.Context, s stage) (ratio, checks float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, backlogLimit)
	defer cancel()
	limited := config.Limits{Default: m.general, Categories: map[string]config.Category{}}
	for i, policy := range m.own {
		limited.Categories[category(i)] = config.Category{Policy: policy}
	}
	kinds := m.arrivals()
	sent, count := new(instants), newTally(len(kinds))
	sys, err := openSystem(ctx, s, limited, sent, count)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, sys.close()) }()
	for i, kind := range kinds {
		n := notification(i, 1)
		n.Category = category(kind)
		if _, err := sys.producer.Enqueue(ctx, n); err != nil {
			return 0, 0, err
		}
	}
	sent.start = time.Now()
	if err := sys.worker.Start(ctx); err != nil {
		return 0, 0, err
	}
	err = count.wait(ctx)
	if err := errors.Join(err, sys.worker.Stop(context.Background())); err != nil {
		return 0, 0, err
	}
	took := sent.all[len(sent.all)-1].At.Sub(sent.start)
	return took.Seconds() / m.ideal(kinds).Seconds(), float64(count.checks.Load()) / float64(len(kinds)), nil
}

// ideal is when the last is allowed, if each time that one is sent which may go
// first, and of several the one that came first.
func (m mix) ideal(waiting []int) time.Duration {
	var all []time.Duration
	own := make([][]time.Duration, len(m.own))
	for waiting = slices.Clone(waiting); len(waiting) > 0; {
		next, at := 0, time.Duration(-1)
		for k, kind := range waiting {
			if free := max(allowed(m.general, all), allowed(m.own[kind], own[kind])); at < 0 || free < at {
				next, at = k, free
			}
		}
		kind := waiting[next]
		waiting = slices.Delete(waiting, next, next+1)
		all, own[kind] = append(all, at), append(own[kind], at)
	}
	return all[len(all)-1]
}
