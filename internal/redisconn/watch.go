package redisconn

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/config"
)

const (
	// checkInterval is the time between checks of a healthy Redis.
	checkInterval = 10 * time.Second
	// recheckInterval is the time between checks in an error state, and how long Redis must be
	// healthy for the state to end.
	recheckInterval = time.Second
	checkTimeout    = 5 * time.Second
	// transientInterval is the least time between two log lines about errors that a check did not
	// confirm.
	transientInterval = time.Minute
)

// WatchOptions are the texts and the log of a Watch.
type WatchOptions struct {
	// Name is Redis's name in the log: "Redis".
	Name string
	// Effect is the effect of an error state: "nothing is accepted". NodeEffect is the effect if a
	// single node of a Cluster is in an error state.
	Effect, NodeEffect string
	Log                *slog.Logger
}

// A Watch logs a Redis's error states: a line when a state begins, with cause and remedy, and a line
// when it ends. A command's error that indicates an error state triggers a check at once. The check
// writes, because a full Redis still reads. A Cluster's nodes have their own states; the Cluster is
// in an error state if every node is. Close the Watch.
type Watch struct {
	o     WatchOptions
	write func(context.Context) map[string]error
	cfg   config.Redis

	woken   chan struct{}
	stop    context.CancelFunc
	looking sync.WaitGroup

	mu      sync.Mutex
	whole   condition
	nodes   map[string]condition // nodes in an error state; empty while the whole Redis is
	suspect error                // a command's error that waits for a check
	cleared time.Time            // when a check last did not confirm a suspect error
	passed  time.Time            // when an unconfirmed error was last logged
}

// Watch starts to watch the Redis.
func (c *Conn) Watch(cfg config.Redis, o WatchOptions) *Watch {
	ctx, stop := context.WithCancel(context.Background())
	w := &Watch{o: o, cfg: cfg, woken: make(chan struct{}, 1), stop: stop, nodes: map[string]condition{}}
	w.write = func(ctx context.Context) map[string]error { return writeProbes(ctx, c.Client, cfg.Prefix) }
	c.hook.by.Store(w)
	w.looking.Go(func() { w.run(ctx) })
	return w
}

func (w *Watch) Close() error {
	w.stop()
	w.looking.Wait()
	return nil
}

func (w *Watch) run(ctx context.Context) {
	timer := time.NewTimer(checkInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.woken:
		case <-timer.C:
		}
		w.check(ctx)
		if w.Status().isHealthy() {
			timer.Reset(checkInterval)
		} else {
			timer.Reset(recheckInterval)
		}
	}
}

// Check checks the Redis now, and returns the error state of the whole Redis.
func (w *Watch) Check(ctx context.Context) redisreply.Trouble {
	trouble := w.check(ctx)
	if !w.Status().isHealthy() {
		w.wake()
	}
	return trouble
}

// wake triggers a check.
func (w *Watch) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

func (w *Watch) check(ctx context.Context) redisreply.Trouble {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	answers := w.write(ctx)
	if errors.Is(ctx.Err(), context.Canceled) {
		return w.Status().Trouble
	}
	w.found(answers, time.Now())
	trouble, _ := wholeTrouble(answers)
	return trouble
}

// found records a check's result: each node's answer.
func (w *Watch) found(answers map[string]error, now time.Time) {
	w.mu.Lock()
	changes := w.changes(answers, now)
	passing := w.clear(now)
	w.mu.Unlock()
	for _, c := range changes {
		c.log(w.o.Log, w.cfg, now)
	}
	if passing != nil {
		w.o.Log.Warn(w.o.Name+" rejected or lost a command, but a check right afterwards succeeded", "address", w.cfg.Address.String(), "error", Explain(passing, w.cfg))
	}
}

// clear clears the suspect error. It returns the error if the check did not confirm it and it must
// be logged, since Quiet loggers did not.
func (w *Watch) clear(now time.Time) error {
	err := w.suspect
	w.suspect = nil
	if err == nil || w.inTrouble() {
		return nil
	}
	w.cleared = now
	if !w.passed.IsZero() && now.Sub(w.passed) < transientInterval {
		return nil
	}
	w.passed = now
	return err
}

// changes records each node's answer, and returns the transitions to log.
func (w *Watch) changes(answers map[string]error, now time.Time) []change {
	trouble, err := wholeTrouble(answers)
	whole := change{name: w.o.Name, effect: w.o.Effect, before: w.whole, after: w.whole.next(trouble, now), err: err}
	w.whole = whole.after
	if w.whole.trouble != redisreply.None {
		clear(w.nodes) // a node's state is logged if it outlasts the whole's
		return []change{whole}
	}
	all := []change{whole}
	for node, before := range w.nodes {
		if _, asked := answers[node]; !asked { // the node has been replaced
			all = append(all, change{name: "a node of " + w.o.Name, node: node, before: before, left: true})
			delete(w.nodes, node)
		}
	}
	for node, err := range answers {
		if node == "" {
			continue
		}
		its := change{name: "a node of " + w.o.Name, effect: w.o.NodeEffect, node: node, before: w.nodes[node], err: err}
		its.after = its.before.next(troubleOf(err), now)
		all = append(all, its)
		if w.nodes[node] = its.after; its.after.trouble == redisreply.None {
			delete(w.nodes, node)
		}
	}
	return all
}

// Status returns the known error state.
func (w *Watch) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := Status{Trouble: w.whole.trouble}
	for node, c := range w.nodes {
		s.Nodes = append(s.Nodes, NodeTrouble{node, c.trouble})
	}
	slices.SortFunc(s.Nodes, func(a, b NodeTrouble) int { return cmp.Compare(a.Address, b.Address) })
	return s
}

// isReporting reports whether the Watch has logged an error state that lasts, or may soon log one.
func (w *Watch) isReporting() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.suspect != nil || w.inTrouble()
}

func (w *Watch) inTrouble() bool { return w.whole.trouble != redisreply.None || len(w.nodes) > 0 }

// suspectError records a command's error.
func (w *Watch) suspectError(err error) {
	if err == nil || redisreply.Of(err) == redisreply.None {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.suspect != nil || w.inTrouble() || time.Since(w.cleared) < recheckInterval {
		return
	}
	w.suspect = err
	w.wake()
}

// An errorHook is a hook that passes commands' errors to the Watch, if there is one.
type errorHook struct{ by atomic.Pointer[Watch] }

func (h *errorHook) hear(err error) {
	if w := h.by.Load(); w != nil && err != nil {
		w.suspectError(err)
	}
}

func (*errorHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *errorHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		h.hear(err)
		return err
	}
}

func (h *errorHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if err != nil {
			for _, cmd := range cmds {
				h.hear(cmd.Err())
			}
		}
		return err
	}
}
