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
	// lookEvery is how often a Redis is looked at that is well, as far as its
	// commands tell.
	lookEvery = 10 * time.Second
	// lookAgain is how often it is looked at in trouble, and for how long it has to
	// be well for the trouble to be over.
	lookAgain = time.Second
	// lookTimeout bounds a look.
	lookTimeout = 5 * time.Second
	// passingEvery lies between two lines about trouble that was over when it was
	// looked at.
	passingEvery = time.Minute
)

// WatchOptions say what a Watch tells.
type WatchOptions struct {
	// Name is what the log calls it: "Redis".
	Name string
	// Effect is what its trouble means: "nothing is accepted". NodeEffect is what
	// that of one node of a Cluster does.
	Effect, NodeEffect string
	Log                *slog.Logger
}

// A Watch is the one who tells of a Redis in trouble: a line when it begins, with
// the cause and what to do, and one when it is over. Any command's error that
// tells of trouble has it look at once, with a command of its own, a write: a
// Redis that is full still reads. The nodes of a Cluster have troubles of their
// own; the Cluster is in trouble when each of them is. Close it.
type Watch struct {
	o     WatchOptions
	write func(context.Context) map[string]error
	cfg   config.Redis

	woken   chan struct{}
	stop    context.CancelFunc
	looking sync.WaitGroup

	mu      sync.Mutex
	whole   condition
	nodes   map[string]condition // those in trouble, unless the whole is
	suspect error                // it tells of trouble, and it was not looked at since
	cleared time.Time            // when a look found nothing behind such an error
	passed  time.Time            // when such an error was told last
}

// Watch begins to watch the Redis.
func (c *Conn) Watch(cfg config.Redis, o WatchOptions) *Watch {
	ctx, stop := context.WithCancel(context.Background())
	w := &Watch{o: o, cfg: cfg, woken: make(chan struct{}, 1), stop: stop, nodes: map[string]condition{}}
	w.write = func(ctx context.Context) map[string]error { return write(ctx, c.Client, cfg.Prefix) }
	c.heard.by.Store(w)
	w.looking.Go(func() { w.run(ctx) })
	return w
}

// Close ends it.
func (w *Watch) Close() error {
	w.stop()
	w.looking.Wait()
	return nil
}

func (w *Watch) run(ctx context.Context) {
	timer := time.NewTimer(lookEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.woken:
		case <-timer.C:
		}
		w.look(ctx)
		if w.Status().well() {
			timer.Reset(lookEvery)
		} else {
			timer.Reset(lookAgain)
		}
	}
}

// Look looks at the Redis now, and answers what trouble all of it is in.
func (w *Watch) Look(ctx context.Context) redisreply.Trouble {
	trouble := w.look(ctx)
	if !w.Status().well() {
		w.wake()
	}
	return trouble
}

// wake has the Redis be looked at soon, and again.
func (w *Watch) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

func (w *Watch) look(ctx context.Context) redisreply.Trouble {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	answers := w.write(ctx)
	if errors.Is(ctx.Err(), context.Canceled) {
		return w.Status().Trouble
	}
	w.found(answers, time.Now())
	trouble, _ := ofAll(answers)
	return trouble
}

// found takes in what a look has found: what each node has answered.
func (w *Watch) found(answers map[string]error, now time.Time) {
	w.mu.Lock()
	changes := w.changes(answers, now)
	passing := w.clear(now)
	w.mu.Unlock()
	for _, c := range changes {
		c.log(w.o.Log, w.cfg, now)
	}
	if passing != nil {
		w.o.Log.Warn(w.o.Name+" did not do what it was told, and is well when looked at", "address", w.cfg.Address.String(), "error", Explain(passing, w.cfg))
	}
}

// clear drops the suspicion. It answers the error behind which there is nothing,
// if it is to be told: whoever met it was quiet, as of trouble.
func (w *Watch) clear(now time.Time) error {
	err := w.suspect
	w.suspect = nil
	if err == nil || w.inTrouble() {
		return nil
	}
	w.cleared = now
	if !w.passed.IsZero() && now.Sub(w.passed) < passingEvery {
		return nil
	}
	w.passed = now
	return err
}

// changes takes in what each node has answered, and answers what there is to tell.
func (w *Watch) changes(answers map[string]error, now time.Time) []change {
	trouble, err := ofAll(answers)
	whole := change{name: w.o.Name, effect: w.o.Effect, before: w.whole, after: w.whole.next(trouble, now), err: err}
	w.whole = whole.after
	if w.whole.trouble != redisreply.None {
		clear(w.nodes) // they are told of when theirs lasts longer
		return []change{whole}
	}
	all := []change{whole}
	for node, before := range w.nodes {
		if _, asked := answers[node]; !asked { // another has taken its place
			all = append(all, change{name: "a node of " + w.o.Name, node: node, before: before, left: true})
			delete(w.nodes, node)
		}
	}
	for node, err := range answers {
		if node == "" {
			continue
		}
		its := change{name: "a node of " + w.o.Name, effect: w.o.NodeEffect, node: node, before: w.nodes[node], err: err}
		its.after = its.before.next(troubleFound(err), now)
		all = append(all, its)
		if w.nodes[node] = its.after; its.after.trouble == redisreply.None {
			delete(w.nodes, node)
		}
	}
	return all
}

// Status answers what trouble it is in, as far as it is known.
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

// tells reports whether trouble is told of, or is about to be.
func (w *Watch) tells() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.suspect != nil || w.inTrouble()
}

func (w *Watch) inTrouble() bool { return w.whole.trouble != redisreply.None || len(w.nodes) > 0 }

// heard takes in a command's error.
func (w *Watch) heard(err error) {
	if err == nil || redisreply.Of(err) == redisreply.None {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.suspect != nil || w.inTrouble() || time.Since(w.cleared) < lookAgain {
		return
	}
	w.suspect = err
	w.wake()
}

// heard has the errors of commands heard by the Watch that there is.
type heard struct{ by atomic.Pointer[Watch] }

func (h *heard) hear(err error) {
	if w := h.by.Load(); w != nil && err != nil {
		w.heard(err)
	}
}

func (*heard) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *heard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		h.hear(err)
		return err
	}
}

func (h *heard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
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
