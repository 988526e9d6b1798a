package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/throttle"
)

const (
	dispatchNotifications = 20_000
	// dispatchRounds is the least number of rounds. A turn takes two seconds, and the load of a
	// shared machine changes as fast; so the order of the contestants rotates.
	dispatchRounds = 9
	// perUser is the number of a round's notifications for one user.
	perUser = 5
	// turnLimit bounds one contestant's turn.
	turnLimit = 5 * time.Minute
)

// dispatchPolicy allows more than any user receives in a round.
var dispatchPolicy = throttle.Policy{Rates: []throttle.Rate{
	{Count: 10, Period: time.Minute}, {Count: 100, Period: 24 * time.Hour},
}}

// A turn is the order to a contestant, which runs in a new process.
type turn struct {
	stage
	Contestant string
	N          int
	APNs       apns.Config
	Profile    string
}

// A result is the contestant's answer.
type result struct {
	Enqueue, Work lap
	PeakMB        float64
}

// A lap is the cost of one part of a turn: time, and CPU time of the contestant's process and of
// Redis.
type lap struct{ Time, Worker, Redis time.Duration }

// dispatchBench makes every contestant first enqueue all notifications of a round, then work them
// off. The rate counts only the second part; CPU time counts both parts.
func dispatchBench(ctx context.Context, r *run) (map[string]any, error) {
	s, err := r.openStage(ctx)
	if err != nil {
		return nil, err
	}
	defer s.clear()
	standIn, err := startStandIns(ctx, 0, "")
	if err != nil {
		return nil, err
	}
	defer standIn.close()
	n := r.n
	if n == 0 {
		n = dispatchNotifications
	}
	play := func(name, profile string) (result, error) {
		return s.play(ctx, turn{stage: s, Contestant: name, N: n, APNs: standIn.APNs, Profile: profile})
	}
	names := []string{"ours", "stock"}
	info, err := r.admin.InfoMap(ctx, "replication").Result()
	if err != nil {
		return nil, err
	}
	if info["Replication"]["connected_slaves"] != "0" {
		names = append(names, "acknowledged")
	}
	samples := samples{}
	for i := range max(r.rounds, dispatchRounds) {
		for j := range names {
			name := names[(i+j)%len(names)]
			before, err := standIn.usage()
			if err != nil {
				return nil, err
			}
			got, err := play(name, "")
			if err != nil {
				return nil, err
			}
			after, err := standIn.usage()
			if err != nil {
				return nil, err
			}
			pushes := after.Pushes - before.Pushes
			if want := int64(n); pushes != want {
				return nil, fmt.Errorf("%s: the stand-in received %d pushes, not %d", name, pushes, want)
			}
			samples.add(name, n, got, after.CPU-before.CPU)
		}
	}
	figures := samples.figures(names)
	if r.profile != "" {
		if _, err := play("ours", r.profile); err != nil {
			return nil, err
		}
	}
	return figures, nil
}

// samples are each round's figures, by contestant and figure.
type samples map[string]map[string][]float64

func (s samples) add(name string, n int, got result, standIn time.Duration) {
	if s[name] == nil {
		s[name] = map[string][]float64{}
	}
	per := func(d ...time.Duration) float64 {
		var sum time.Duration
		for _, d := range d {
			sum += d
		}
		return float64(sum.Nanoseconds()) / 1000 / float64(n)
	}
	of := map[string]float64{
		"rate": rate(n, got.Work), "enqueue": rate(n, got.Enqueue),
		"worker": per(got.Enqueue.Worker, got.Work.Worker), "enqueue worker": per(got.Enqueue.Worker),
		"redis": per(got.Enqueue.Redis, got.Work.Redis), "enqueue redis": per(got.Enqueue.Redis),
		"mb": got.PeakMB, "stand-in": per(standIn),
	}
	for figure, value := range of {
		s[name][figure] = append(s[name][figure], value)
	}
	fmt.Fprintf(os.Stderr, "%-12s %6.0f/s, enqueue %6.0f/s; CPU µs: worker %5.1f (%4.1f to enqueue), Redis %5.1f (%4.1f); %.1f MB\n", name,
		of["rate"], of["enqueue"], of["worker"], of["enqueue worker"], of["redis"], of["enqueue redis"], of["mb"])
}

// figures are the medians.
func (s samples) figures(names []string) map[string]any {
	all, cpu, enqueue := map[string]any{}, map[string]any{}, map[string]any{}
	for _, name := range names {
		of := func(figure string) float64 { return round(median(s[name][figure]), 1) }
		all[name] = math.Round(of("rate"))
		cpu[name] = map[string]any{"worker": of("worker"), "redis": of("redis")}
		enqueue[name] = map[string]any{"rate": math.Round(of("enqueue")), "worker_us": of("enqueue worker"), "redis_us": of("enqueue redis")}
	}
	all["cpu_us"], all["enqueue"] = cpu, enqueue
	all["rss_mb"] = round(median(s["ours"]["mb"]), 1)
	all["standin_us_per_push"] = round(median(s["ours"]["stand-in"]), 1)
	return all
}

func rate(n int, l lap) float64 { return math.Round(float64(n) / l.Time.Seconds()) }

// play runs one contestant's turn in a new process, and removes its keys.
func (s stage) play(ctx context.Context, t turn) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, turnLimit)
	defer cancel()
	defer s.clear()
	var got result
	if err := ask(ctx, contestantCommand, t, &got); err != nil {
		return got, fmt.Errorf("%s: %w", t.Contestant, err)
	}
	return got, nil
}

// round rounds x to that many decimal places.
func round(x float64, places int) float64 {
	scale := math.Pow10(places)
	return math.Round(x*scale) / scale
}
