package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/reschedule"
	"github.com/pushpace/pushpace/worker/webhook"
)

// state is the state of a Worker, which starts once and stops once.
type state int

const (
	unstarted state = iota
	started
	stopped
)

// Start begins to pull jobs. If Redis cannot return the operators' pauses and limits, the worker begins
// once they can be read. ctx bounds only the start. A worker starts once: after an error or Stop, make a
// new worker.
func (w *Worker) Start(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state != unstarted {
		return errors.New("worker: already started or stopped")
	}
	w.state = started
	err := w.start(ctx)
	if err != nil {
		w.state = stopped
		w.shutDown()
	}
	return err
}

// Stop stops pulling. Claimed jobs have ShutdownTimeout to finish, or less if ctx ends earlier;
// unfinished jobs return to the queue. If ctx ends before all of this is done, Stop returns an error
// and the shutdown goes on in the background. If the process exits before the end of the shutdown, other
// workers get its jobs within seconds. Stop may be called at any time, and repeatedly.
func (w *Worker) Stop(ctx context.Context) error {
	w.startShutdown()
	select {
	case <-w.down:
		return nil
	default:
	}
	select {
	case <-w.down:
		return nil
	case <-ctx.Done():
		w.h.background.stop() // which cancels the jobs in flight
		return fmt.Errorf("worker: some jobs did not finish in time, and return to the queue: %w", context.Cause(ctx))
	}
}

// startShutdown starts the shutdown, once.
func (w *Worker) startShutdown() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state != stopped {
		w.state = stopped
		go w.shutDown()
	}
}

// shutDown ends all parts of the worker.
func (w *Worker) shutDown() {
	defer close(w.down)
	w.draining.Store(true)
	w.beginning.Wait()
	var stopping sync.WaitGroup
	for _, s := range w.pulling {
		stopping.Go(s.Shutdown)
	}
	stopping.Wait()
	w.h.background.stop()
	w.h.background.all.Wait()
	w.h.routes.Units.Close()
	w.h.repeats.Close()
	w.closeOwned()
}

// start makes the servers and calls begin. If Redis is in trouble, a goroutine calls begin later.
func (w *Worker) start(ctx context.Context) error {
	h := w.h
	servers, err := h.serve(ctx)
	if err != nil {
		return err
	}
	h.background.run(w.publishSnapshots)
	err = h.readOperatorState(ctx)
	if err == nil {
		w.begin(servers)
		return nil
	}
	if redisreply.Of(err) == redisreply.None || ctx.Err() != nil {
		return err
	}
	h.Log.LogAttrs(ctx, slog.LevelWarn, "this worker pulls no jobs until it can read the operators' pauses and limits from Redis", slog.Any("error", err))
	h.background.run(func(ctx context.Context) { w.retryBegin(ctx, servers) })
	return nil
}

// readOperatorState reads the operators' pauses and overrides, without which nothing may be sent.
func (h *handler) readOperatorState(ctx context.Context) error {
	err := h.holds.read(ctx)
	if err == nil && h.Overrides != nil {
		_, err = h.Overrides.Refresh(ctx, h.Limits)
	}
	if at, found := h.Limits.LevelWithoutZone(); found && err == nil {
		h.Log.LogAttrs(ctx, slog.LevelWarn, "quiet hours of overrides use UTC, because no time zone is configured: set limits.time_zone", slog.Any("one_of_them", at))
	}
	return err
}

// retryBegin retries readOperatorState until Redis has recovered, and then begins. Any other error stops
// the worker.
func (w *Worker) retryBegin(ctx context.Context, servers []*queue.Server) {
	err := w.h.readOperatorState(ctx)
	for ; redisreply.Of(err) != redisreply.None; err = w.h.readOperatorState(ctx) {
		if clock.Sleep(ctx, pollInterval) != nil {
			return
		}
	}
	if err == nil {
		if !w.mayBegin() {
			return
		}
		w.begin(servers)
		w.beginning.Done()
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		w.h.Log.LogAttrs(ctx, slog.LevelError, "the worker stops, as it cannot read the operators' pauses and limits: correct the error and start the worker again", slog.Any("error", err))
		w.startShutdown()
		return
	}
	w.h.Log.LogAttrs(ctx, slog.LevelInfo, "this worker has read the operators' pauses and limits, and pulls jobs")
}

// mayBegin reports whether the worker was not stopped. After true, a shutdown waits until begin has
// returned.
func (w *Worker) mayBegin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state != started {
		return false
	}
	w.beginning.Add(1)
	return true
}

// begin starts the servers, and then the parts that need them.
func (w *Worker) begin(servers []*queue.Server) {
	h := w.h
	w.pulling = servers
	var starting sync.WaitGroup // concurrently, so that a hanging master delays only its own shards
	for _, s := range servers {
		starting.Go(func() { s.Start(h.background.stopping, h.processor()) })
	}
	starting.Wait()
	h.background.run(h.sweep)
	for s := range h.routes.Shares() {
		h.background.run(func(ctx context.Context) { s.Keep(ctx, h.RedisLog) })
	}
	for _, follow := range []func(context.Context){
		h.holds.follow, h.reclaimer.follow, h.slots.run,
		func(ctx context.Context) { clock.Every(ctx, pollInterval, func() { h.routes.LogTroubles(ctx) }) },
		func(ctx context.Context) { h.control.RecordLosses(ctx, h.Log, h.RedisLog) },
		func(ctx context.Context) { h.control.LogDropped(ctx, h.Log) },
	} {
		h.background.run(follow)
	}
	for _, queues := range store.Intakes(h.Queue) {
		h.background.run(func(ctx context.Context) { h.followIntake(ctx, queues) })
	}
	if h.Overrides != nil {
		h.background.run(func(ctx context.Context) {
			reschedule.Follow(ctx, reschedule.Config{
				Limits: h.Limits, Overrides: h.Overrides, Limiter: h.Limiter, Control: h.control, Waiting: h.Options.Waiting,
				Apps: slices.Collect(maps.Keys(h.Senders)), Redis: h.Queue, Prefix: h.Prefix, RedisLog: h.RedisLog,
			})
		})
	}
	for _, deliver := range webhook.Deliverers(webhook.Config{
		DeadTokens: h.Webhooks, Outcomes: h.OutcomeWebhooks, Reports: h.deadTokens, Events: store.NewOutcomes(h.records),
		Proxy: h.proxy, Observer: h.Observer, Log: h.Log, RedisLog: h.RedisLog, Times: h.times.webhook,
	}) {
		h.background.run(deliver)
	}
	if h.ClockOffset != nil {
		h.background.run(func(ctx context.Context) { clock.Watch(ctx, h.Log, h.ClockOffset) })
	}
}

// sweep repeatedly writes the number of shards, and the list of queues for asynq's tools, until ctx ends:
// a failover may lose both.
func (h *handler) sweep(ctx context.Context) {
	clock.Every(ctx, clock.SlowInterval, func() {
		if err := h.records.Relist(ctx); err != nil && ctx.Err() == nil {
			h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "the number of shards and the list of queues for asynq's tools could not be written to Redis: the worker retries", slog.Any("error", err))
		}
	})
}

// background runs goroutines beside the pipeline until the context stopping ends.
type background struct {
	all      sync.WaitGroup
	stopping context.Context
	stop     context.CancelFunc
}

func newBackground() *background {
	s := new(background)
	s.stopping, s.stop = context.WithCancel(context.Background())
	return s
}

// run runs f in a goroutine. f must return when its context ends.
func (s *background) run(f func(ctx context.Context)) {
	s.all.Go(func() { f(s.stopping) })
}
