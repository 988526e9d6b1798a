package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

const (
	// latencySamples is the least number of notifications that are timed, one at a time.
	latencySamples = 200
	// latencyBulk is the number of bulk notifications that wait when a round begins.
	latencyBulk = 120_000
	// bulkRounds is the least number of rounds, both with and without critical notifications.
	bulkRounds = 3
	// idleTTL is how long the commands of an idle program are counted.
	idleTTL = 30 * time.Second
	// watched is the prefix of the timed notifications' IDs.
	watched = "timed-"
	// arrivalLimit is how long the bench waits until a timed notification arrives.
	arrivalLimit = time.Minute
)

// deferralGap is longer than a delivery may wait in the worker's process, so that the second
// notification returns to the queue.
const deferralGap = 4 * time.Second

// latencyCategories are an exempt category, a category with a gap, and one without limits.
var latencyCategories = map[string]any{
	"code":   map[string]any{"exempt": true},
	"paced":  map[string]any{"min_gap": deferralGap.String()},
	"orders": map[string]any{},
}

// A delayBench times single notifications from the Producer's call until the stand-in receives
// them. The stand-in answers after its latency.
type delayBench struct {
	stage
	program  program
	standIn  *standIns
	producer *push.Producer
	random   *rand.Rand
	n        int // notifications so far
}

// latencyBench times notifications through the built program: while it is idle, while it sends bulk
// notifications, and notifications that wait for a slot.
func latencyBench(ctx context.Context, r *run) (figures map[string]any, err error) {
	figures = map[string]any{}
	for _, latency := range []time.Duration{0, 50 * time.Millisecond} {
		if err := r.latency(ctx, latency, figures); err != nil {
			return nil, err
		}
	}
	return figures, nil
}

// latency adds the figures with stand-ins of that latency.
func (r *run) latency(ctx context.Context, latency time.Duration, figures map[string]any) (err error) {
	s, err := r.openStage(ctx)
	if err != nil {
		return err
	}
	defer s.clear()
	standIn, err := startStandIns(ctx, latency, watched)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, standIn.close()) }()
	program, err := buildProgram(ctx, standIn.dir, s, standIn.APNs, latencyCategories)
	if err != nil {
		return err
	}
	client := s.client(enqueuers)
	defer client.Close()
	shared, stop := pipeline.Share(client, pipeline.Options{Timeout: 2 * time.Second})
	defer stop()
	b := &delayBench{
		stage: s, program: program, standIn: standIn, random: rand.New(rand.NewPCG(1, 2)),
		producer: push.NewProducer(shared, s.Prefix, time.Hour),
	}
	if latency == 0 {
		if err := b.calm(ctx, figures); err != nil {
			return err
		}
		s.clear()
	}
	name := "beside_bulk"
	if latency > 0 {
		name += fmt.Sprintf("_%dms", latency.Milliseconds())
	}
	n := r.n
	if n == 0 {
		n = latencyBulk
	}
	figures[name], err = b.besideBulk(ctx, name, n)
	return err
}

// calm adds the figures of an idle program.
func (b *delayBench) calm(ctx context.Context, figures map[string]any) error {
	stop, err := b.program.serve(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = stop() }()
	if _, err := b.timed(ctx, 1, nil); err != nil { // until the program runs
		return err
	}
	idle, err := b.timed(ctx, latencySamples, nil)
	if err != nil {
		return err
	}
	figures["idle"] = percentiles("idle", idle)
	deferred, err := b.deferred(ctx)
	if err != nil {
		return err
	}
	figures["deferred"] = percentiles("deferred", deferred)
	commands, err := b.commands(ctx, idleTTL)
	if err != nil {
		return err
	}
	figures["idle_commands_per_s"] = round(float64(commands)/idleTTL.Seconds(), 1)
	fmt.Fprintf(os.Stderr, "%-17s %.1f commands a second\n", "nothing to do", figures["idle_commands_per_s"])
	return nil
}

// besideBulk times critical notifications while bulk ones are sent, and measures the bulk rate with
// and without critical notifications.
func (b *delayBench) besideBulk(ctx context.Context, name string, n int) (map[string]any, error) {
	var delays, beside, alone []float64
	for len(beside) < bulkRounds || len(delays) < latencySamples {
		got, rate, err := b.bulk(ctx, n, true)
		if err != nil {
			return nil, err
		}
		delays, beside = append(delays, got...), append(beside, rate)
		if len(alone) == bulkRounds {
			continue
		}
		if _, rate, err = b.bulk(ctx, n, false); err != nil {
			return nil, err
		}
		alone = append(alone, rate)
	}
	figures := percentiles(name, delays)
	figures["bulk_per_s"], figures["bulk_alone_per_s"] = math.Round(median(beside)), math.Round(median(alone))
	fmt.Fprintf(os.Stderr, "%-17s bulk notifications a second: %.0f with critical ones, %.0f alone\n", "", median(beside), median(alone))
	return figures, nil
}

// bulk sends n bulk notifications, and if critical is true, times critical ones meanwhile. It
// returns their delays in ms, and the bulk rate a second.
func (b *delayBench) bulk(ctx context.Context, n int, critical bool) (delays []float64, rate float64, err error) {
	defer b.clear()
	err = each(ctx, enqueuers, n, func(ctx context.Context, i int) error {
		bulk := notification(i, n)
		bulk.Priority = push.Bulk
		_, err := b.producer.Enqueue(ctx, bulk)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	before, err := b.standIn.usage()
	if err != nil {
		return nil, 0, err
	}
	stop, err := b.program.serve(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	// left waits until that percentage has been sent; it returns the time and the number sent
	left := func(ctx context.Context, percent int) (time.Time, int64, error) {
		for {
			now, err := b.standIn.usage()
			sent := now.Pushes - before.Pushes
			if err != nil || sent*100 >= int64(n*percent) {
				return time.Now(), sent, err
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return time.Time{}, 0, context.Cause(ctx)
			}
		}
	}
	began, first, err := left(ctx, 5)
	if err != nil {
		return nil, 0, err
	}
	var over atomic.Bool
	var timing error
	timed := make(chan struct{})
	go func() {
		defer close(timed)
		if critical {
			delays, timing = b.timed(ctx, math.MaxInt, &over)
		}
	}()
	ended, last, err := left(ctx, 90)
	over.Store(true)
	<-timed
	if err := errors.Join(err, timing); err != nil {
		return nil, 0, err
	}
	if _, _, err := left(ctx, 100); err != nil {
		return nil, 0, err
	}
	return delays, float64(last-first-int64(len(delays))) / ended.Sub(began).Seconds(), nil
}

// timed enqueues critical notifications, one at a time, until there are n or isOver is true, and
// returns their delays in ms.
func (b *delayBench) timed(ctx context.Context, n int, isOver *atomic.Bool) ([]float64, error) {
	called := map[string]time.Time{}
	for len(called) < n && (isOver == nil || !isOver.Load()) {
		one := b.next("code")
		one.Priority = push.Critical
		called[one.ID] = time.Now()
		if _, err := b.producer.Enqueue(ctx, one); err != nil {
			return nil, err
		}
		if err := b.pause(ctx); err != nil {
			return nil, err
		}
	}
	return b.delays(ctx, called)
}

// deferred enqueues pairs of notifications. The second one of each pair waits for its slot; deferred
// returns how many ms after its slot each was received.
func (b *delayBench) deferred(ctx context.Context) ([]float64, error) {
	firsts, seconds := map[string]string{}, map[string]string{} // user by ID
	for range latencySamples {
		first, second := b.next("paced"), b.next("paced")
		second.User = first.User
		firsts[first.ID], seconds[second.ID] = first.User, first.User
		if _, err := b.producer.Enqueue(ctx, first); err != nil {
			return nil, err
		}
		if _, err := b.producer.Enqueue(ctx, second); err != nil {
			return nil, err
		}
		if err := b.pause(ctx); err != nil {
			return nil, err
		}
	}
	admitted := make(map[string]time.Time, len(firsts)) // by user
	if err := b.arrived(ctx, slices.Collect(maps.Keys(seconds))); err != nil {
		return nil, err
	}
	client := b.client(1)
	defer client.Close()
	limiter, err := throttle.New(client, throttle.Options{Prefix: b.Prefix})
	if err != nil {
		return nil, err
	}
	defer limiter.Close()
	const category = "paced"
	for _, user := range firsts {
		timeline, err := limiter.Timeline(ctx, throttle.Request{App: app, User: user, ID: "none", Scopes: []throttle.Scope{{Name: category}}})
		if err != nil {
			return nil, err
		}
		for _, a := range timeline.Admissions[category] {
			if at, ok := admitted[user]; !ok || a.At.Before(at) {
				admitted[user] = a.At
			}
		}
	}
	due := make(map[string]time.Time, len(seconds))
	for id, user := range seconds {
		due[id] = admitted[user].Add(deferralGap)
	}
	return b.delays(ctx, due)
}

// next returns the next notification, for a new user.
func (b *delayBench) next(category string) *push.Notification {
	b.n++
	one := notification(b.n, math.MaxInt)
	one.ID, one.User, one.Category = fmt.Sprintf("%s%019d", watched, b.n), fmt.Sprintf("timed-%d", b.n), category
	return one
}

// pause waits 100 to 300 ms between two notifications.
func (b *delayBench) pause(ctx context.Context) error {
	select {
	case <-time.After(100*time.Millisecond + time.Duration(b.random.Int64N(int64(200*time.Millisecond)))):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// delays returns how many ms after its instant in from, by ID, each notification was received.
func (b *delayBench) delays(ctx context.Context, from map[string]time.Time) ([]float64, error) {
	if err := b.arrived(ctx, slices.Collect(maps.Keys(from))); err != nil {
		return nil, err
	}
	taken, err := b.standIn.ledger()
	if err != nil {
		return nil, err
	}
	delays := make([]float64, 0, len(from))
	for id, at := range from {
		delays = append(delays, float64(taken[id].Sub(at).Microseconds())/1000)
	}
	return delays, nil
}

// arrived waits until the stand-in has received all missing IDs.
func (b *delayBench) arrived(ctx context.Context, missing []string) error {
	for deadline := time.Now().Add(arrivalLimit); ; {
		taken, err := b.standIn.ledger()
		if err != nil {
			return err
		}
		missing = slices.DeleteFunc(missing, func(id string) bool { _, ok := taken[id]; return ok })
		if len(missing) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d notifications have not arrived, for example %s", len(missing), missing[0])
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// commands counts the commands to the stage's Redis during that time; a script counts as one.
func (b *delayBench) commands(ctx context.Context, long time.Duration) (n int, err error) {
	return commands(ctx, b.Redis, b.DB, long)
}

// commands counts the commands to one database of a server during that time.
func commands(ctx context.Context, addr string, db int, long time.Duration) (n int, err error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(long)); err != nil {
		return 0, err
	}
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		return 0, err
	}
	// +1339518083.107412 [15 127.0.0.1:60866] "keys" "*"; in commands of a script lua is the address
	ours, scripts := fmt.Sprintf(" [%d ", db), fmt.Sprintf(" [%d lua]", db)
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if line := lines.Text(); strings.Contains(line, ours) && !strings.Contains(line, scripts) {
			n++
		}
	}
	if err := lines.Err(); !errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, fmt.Errorf("redis %s: MONITOR: %w", addr, errors.Join(err, ctx.Err()))
	}
	return n, nil
}

// percentiles returns and prints the figures of delays in ms.
func percentiles(name string, delays []float64) map[string]any {
	slices.Sort(delays)
	at := func(percent int) float64 { return round(delays[(len(delays)-1)*percent/100], 2) }
	fmt.Fprintf(os.Stderr, "%-17s %d: p50 %.2f ms, p99 %.2f ms, at most %.2f ms\n", name, len(delays), at(50), at(99), at(100))
	return map[string]any{"p50_ms": at(50), "p99_ms": at(99)}
}
