package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/throttle/quiet"
)

const (
	// openingUsers is the number of users; quiet hours hold one notification of each.
	openingUsers = 100_000
	// openingSpread is the largest delay of the end of a user's quiet hours.
	openingSpread = time.Minute
	// openingAhead is the shortest time between the last acceptance and the end of quiet hours.
	openingAhead = 2 * time.Minute
	// openingLimit bounds the measurement of the opening.
	openingLimit = 15 * time.Minute
)

// quietBench measures the cost of quiet hours outside them, and the rate of pushes at their
// end.
func quietBench(ctx context.Context, r *run) (map[string]any, error) {
	s, err := r.openStage(ctx)
	if err != nil {
		return nil, err
	}
	defer s.clear()
	over, err := openOverNone(ctx, r, s)
	if err != nil {
		return nil, err
	}
	users := r.n
	if users == 0 {
		users = openingUsers
	}
	opening, err := opening(ctx, s, users)
	if err != nil {
		return nil, fmt.Errorf("opening: %w", err)
	}
	return map[string]any{"open_over_none": over, "opening": opening}, nil
}

// openOverNone returns the ratio of two dispatch rates: outside quiet hours, and without any.
func openOverNone(ctx context.Context, r *run, s stage) (float64, error) {
	standIn, err := startStandIns(ctx, 0, "")
	if err != nil {
		return 0, err
	}
	defer standIn.close()
	names := []string{"ours", "quiet"}
	samples := samples{}
	for i := range max(r.rounds, dispatchRounds) {
		for j := range names {
			name := names[(i+j)%len(names)]
			got, err := s.play(ctx, turn{stage: s, Contestant: name, N: dispatchNotifications, APNs: standIn.APNs})
			if err != nil {
				return 0, err
			}
			samples.add(name, dispatchNotifications, got, 0)
		}
	}
	return round(median(samples["quiet"]["rate"])/median(samples["ours"]["rate"]), 3), nil
}

// quietContender returns pushpace with quiet hours that begin in ten hours.
func quietContender(ctx context.Context, t turn) (*contender, error) {
	now := time.Now().UTC()
	limited := config.Limits{Default: dispatchPolicy, TimeZone: "UTC"}
	limited.Default.Quiet = quietWindow(now.Add(10*time.Hour), now.Add(14*time.Hour))
	return t.limited(ctx, limited)
}

// quietWindow returns daily quiet hours in UTC, from the minute of from to the minute of upto.
func quietWindow(from, upto time.Time) quiet.Hours {
	hours, err := quiet.ParseHours([]string{from.Format("15:04") + "-" + upto.Format("15:04")})
	if err != nil {
		panic(err)
	}
	return hours
}

// opening measures the pushes when the quiet hours of all users end.
func opening(ctx context.Context, s stage, users int) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, openingLimit)
	defer cancel()
	now := time.Now().UTC()
	ends := now.Add(openingAhead + time.Duration(users)*time.Millisecond).Truncate(time.Minute).Add(time.Minute)
	limited := config.Limits{TimeZone: "UTC", QuietHoursSpread: openingSpread}
	limited.Default.Quiet = quietWindow(now.Add(-time.Hour), ends)
	sent, count := new(instants), newTally(users)
	sys, err := openSystem(ctx, s, limited, sent, count)
	if err != nil {
		return nil, err
	}
	err = sys.worker.Start(ctx)
	if err == nil {
		err = each(ctx, enqueuers, users, func(ctx context.Context, i int) error {
			_, err := sys.producer.Enqueue(ctx, notification(i, users))
			return err
		})
	}
	accepted := time.Now()
	if err == nil {
		err = count.wait(ctx)
	}
	if err = errors.Join(err, sys.worker.Stop(context.Background()), sys.close()); err != nil {
		return nil, err
	}
	seconds := map[int]int{}
	busiest, late := 0, make([]float64, 0, users)
	for _, p := range sent.all {
		second := int(p.At.Sub(ends) / time.Second)
		if p.At.Before(ends) {
			return nil, fmt.Errorf("a push was sent %s before the end of the quiet hours", ends.Sub(p.At))
		}
		seconds[second]++
		busiest = max(busiest, seconds[second])
		late = append(late, p.At.Sub(ends).Seconds())
	}
	slices.Sort(late)
	fmt.Fprintf(os.Stderr, "opening: %d accepted %s before; %d pushes in the busiest second, the last after %.1f s\n",
		users, ends.Sub(accepted).Round(time.Second), busiest, late[len(late)-1])
	return map[string]any{
		"users": users, "busiest_over_mean": round(float64(busiest)*openingSpread.Seconds()/float64(users), 3),
		"checks_per_delivery": round(float64(count.checks.Load())/float64(users), 3), "drained_s": round(late[len(late)-1], 1),
	}, nil
}
