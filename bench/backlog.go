package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/violations"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

// A backlog describes the notifications that wait at the start.
type backlog struct {
	users, jobs int // jobs of each user
	policy      throttle.Policy
}

var (
	hot  = backlog{1, 60, throttle.Policy{MinGap: 300 * time.Millisecond, Rates: []throttle.Rate{{Count: 10, Period: 5 * time.Second}}}}
	many = backlog{200, 20, throttle.Policy{MinGap: 300 * time.Millisecond, Rates: []throttle.Rate{{Count: 5, Period: 5 * time.Second}}}}
)

// backlogLimit bounds one contestant's time. Notifications that it has not sent by then stay
// unsent.
const backlogLimit = 90 * time.Second

// tolerance is the longest allowed time between an admission and its send.
const tolerance = 50 * time.Millisecond

// backlogBench runs one round of each contestant: its figures are relative to a schedule, not to
// the other contestant.
func backlogBench(ctx context.Context, r *run) (map[string]any, error) {
	s, err := r.openStage(ctx)
	if err != nil {
		return nil, err
	}
	defer s.clear()
	round := func(name string, b backlog, drain drain) (map[string]any, error) {
		sent, took, err := b.run(ctx, s, drain)
		s.clear()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		figures := b.figures(sent, took)
		line, _ := json.Marshal(figures)
		fmt.Fprintf(os.Stderr, "%-11s %s\n", name, line)
		return figures, nil
	}
	oursHot, err := round("hot, ours", hot, drainOurs)
	if err != nil {
		return nil, err
	}
	stockHot, err := round("hot, stock", hot, drainStock)
	if err != nil {
		return nil, err
	}
	oursMany, err := round("many, ours", many, drainOurs)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"hot":  map[string]any{"ours": oursHot, "stock": stockHot},
		"many": map[string]any{"ours": oursMany},
	}, nil
}

// A drain enqueues the backlog, calls begin, and then works the backlog off.
type drain func(ctx context.Context, s stage, b backlog, sent *instants, begin func()) (checks int64, err error)

// run returns the sent notifications and the number of checks.
func (b backlog) run(ctx context.Context, s stage, drain drain) (*instants, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, backlogLimit)
	defer cancel()
	sent := new(instants)
	checks, err := drain(ctx, s, b, sent, func() { sent.start = time.Now() })
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return sent, checks, err
}

// Instants records when pushes were sent. It is a providers.Sender.
type instants struct {
	start time.Time
	mu    sync.Mutex
	all   []violations.Push
}

func (s *instants) add(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, violations.Push{App: app, User: user, At: time.Now()})
}

// Send implements providers.Sender.
func (s *instants) Send(_ context.Context, n *push.Notification, _ push.Target, _ providers.Departure) providers.Outcome {
	s.add(n.User)
	return providers.Outcome{Kind: providers.Delivered}
}

// Close implements providers.Sender.
func (s *instants) Close() error { return nil }

func drainOurs(ctx context.Context, s stage, b backlog, sent *instants, begin func()) (int64, error) {
	count := newTally(b.users * b.jobs)
	sys, err := openSystem(ctx, s, config.Limits{Default: b.policy}, sent, count)
	if err != nil {
		return 0, err
	}
	err = each(ctx, enqueuers, b.users*b.jobs, func(ctx context.Context, i int) error {
		_, err := sys.producer.Enqueue(ctx, notification(i, b.users))
		return err
	})
	if err != nil {
		return 0, errors.Join(err, sys.close())
	}
	begin()
	if err = sys.worker.Start(ctx); err == nil {
		err = errors.Join(count.wait(ctx), sys.worker.Stop(context.Background()))
	}
	return count.checks.Load(), errors.Join(err, sys.close())
}

// drainStock works off the backlog with plain asynq, in the way that asynq's documentation shows:
// the handler of a denied job returns an error with the time left, and asynq retries the job after
// that time.
func drainStock(ctx context.Context, s stage, b backlog, sent *instants, begin func()) (int64, error) {
	client := s.client(stockPool)
	defer client.Close()
	tasks := asynq.NewClientFromRedisClient(client)
	for i := range b.users * b.jobs {
		payload := []byte(strconv.Itoa(i))
		if _, err := tasks.EnqueueContext(ctx, asynq.NewTask("push", payload), asynq.Queue(s.Prefix)); err != nil {
			return 0, err
		}
	}
	limiter := newWindow(client, s.Prefix+":window:", b.policy)
	count := newTally(b.users * b.jobs)
	server := newStockServer(client, s.Prefix)
	begin()
	err := server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		i, err := strconv.Atoi(string(task.Payload()))
		if err != nil {
			return err
		}
		user := strconv.Itoa(i % b.users)
		count.Checked(0)
		left, err := limiter.check(ctx, user, id(int64(i)))
		if err != nil {
			return err
		}
		if left > 0 {
			return &tooSoon{left}
		}
		sent.add(user)
		count.end(true)
		return nil
	}))
	if err != nil {
		return 0, err
	}
	err = count.wait(ctx)
	server.Shutdown()
	return count.checks.Load(), err
}

func (b backlog) figures(sent *instants, checks int64) map[string]any {
	sent.mu.Lock()
	defer sent.mu.Unlock()
	if len(sent.all) == 0 {
		return map[string]any{"delivered": 0}
	}
	found := violations.Find(sent.all, b.policy, nil, tolerance) // sorts sent.all
	took := sent.all[len(sent.all)-1].At.Sub(sent.start)
	if len(sent.all) < b.users*b.jobs {
		took = backlogLimit // a lower bound
	}
	late := b.lateness(sent.all)
	return map[string]any{
		"delivered": len(sent.all), "violations": len(found),
		"checks_per_delivery": round(float64(checks)/float64(len(sent.all)), 3),
		"drain_ratio":         round(took.Seconds()/b.ideal().Seconds(), 4),
		"lateness_ms":         map[string]any{"p50": quantile(late, 0.5), "p99": quantile(late, 0.99)},
	}
}

// ideal returns when the last of a user's jobs is allowed, if each job is sent at the first instant
// at which it is allowed.
func (b backlog) ideal() time.Duration {
	schedule := make([]time.Duration, b.jobs)
	for i := range schedule {
		schedule[i] = allowed(b.policy, schedule[:i])
	}
	return schedule[b.jobs-1]
}

// allowed returns the first instant at which the policy allows a push after these pushes.
func allowed(p throttle.Policy, pushes []time.Duration) time.Duration {
	first, n := time.Duration(0), len(pushes)
	if n > 0 {
		first = pushes[n-1] + p.MinGap
	}
	for _, r := range p.Rates {
		if n >= r.Count {
			first = max(first, pushes[n-r.Count]+r.Period)
		}
	}
	return first
}

// lateness returns, sorted, how many ms each push was sent after the first instant that its user's
// earlier pushes allow. It omits each user's first push, which was allowed before the start.
func (b backlog) lateness(pushes []violations.Push) []float64 {
	users := map[string][]time.Duration{}
	var late []float64
	for _, p := range pushes {
		before := users[p.User]
		at := p.At.Sub(pushes[0].At)
		if len(before) > 0 {
			late = append(late, max(0, (at-allowed(b.policy, before)).Seconds()*1000))
		}
		users[p.User] = append(before, at)
	}
	slices.Sort(late)
	return late
}

// quantile returns the q-quantile of sorted samples, rounded to a hundredth; 0 without samples.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return round(sorted[min(len(sorted)-1, int(q*float64(len(sorted))))], 2)
}
