package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/reschedule"
	"github.com/pushpace/pushpace/worker/webhook"
)

// state is how far a Worker is in its life: it starts once, and stops once.
type state int

const (
	unstarted state = iota
	started
	stopped
)

// Start begins to pull, and returns once asynq's server runs. ctx bounds the start alone. A
// worker starts once: after an error or Stop it takes another one.
func (w *Worker) Start(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state != unstarted {
		return errors.New("worker: it was started or stopped before")
	}
	w.state = started
	err := w.start(ctx)
	if err != nil {
		w.state = stopped
		w.putDown()
	}
	return err
}

// Stop stops pulling, and lets end what is under way, for ShutdownTimeout at most and until
// ctx ends. What has not ended by then goes back to the queue. Stop returns an error when
// ctx ends before all of that is done: it goes on beside, and what the process leaves comes
// back to the other workers within seconds. A worker that was never started, or has stopped,
// may be stopped.
func (w *Worker) Stop(ctx context.Context) error {
	w.mu.Lock()
	if w.state != stopped {
		w.state = stopped
		go w.putDown()
	}
	w.mu.Unlock()
	select {
	case <-w.down:
		return nil
	default:
	}
	select {
	case <-w.down:
		return nil
	case <-ctx.Done():
		w.h.side.stop() // which cuts off what is in hand
		return fmt.Errorf("worker: not all has ended in time, and comes back from the queue: %w", context.Cause(ctx))
	}
}

// putDown ends all that was started.
func (w *Worker) putDown() {
	defer close(w.down)
	w.draining.Store(true)
	if w.pulling {
		w.h.queue.Shutdown()
	}
	w.h.side.stop()
	w.h.side.all.Wait()
	w.h.routes.Units.Close()
	w.h.repeats.Close()
	w.endOwn()
}

// start starts the parts, the queue before what follows it.
func (w *Worker) start(ctx context.Context) error {
	h := w.h
	if err := h.holds.read(ctx); err != nil {
		return err
	}
	if h.Overrides != nil {
		if _, err := h.Overrides.Refresh(ctx, h.Limits); err != nil {
			return err
		}
	}
	if err := h.queue.Start(h.side.stopping, h.processor()); err != nil {
		return err
	}
	w.pulling = true
	for s := range h.routes.Shares() {
		h.side.run(func(ctx context.Context) { s.Keep(ctx, h.RedisLog) })
	}
	for _, follow := range []func(context.Context){
		h.queue.Sweep, h.holds.follow, h.taken.follow, h.slots.follow, h.collapsing.follow, w.leaveSnapshots,
		func(ctx context.Context) { clock.Every(ctx, pollEvery, func() { h.routes.LogTroubles(ctx) }) },
		func(ctx context.Context) { h.control.TellLosses(ctx, h.Log) },
	} {
		h.side.run(follow)
	}
	if h.Overrides != nil {
		h.side.run(func(ctx context.Context) {
			reschedule.Follow(ctx, reschedule.Config{
				Limits: h.Limits, Overrides: h.Overrides, Limiter: h.Limiter, Control: h.control, Waiting: h.Options.Waiting, Rates: h.routes.Rates, Marks: h.routes.Marks,
				Apps: slices.Collect(maps.Keys(h.Senders)), MaxWait: h.MaxWait, Redis: h.Queue, Prefix: h.Prefix, RedisLog: h.RedisLog,
			})
		})
	}
	for _, deliver := range webhook.Deliverers(webhook.Config{
		DeadTokens: h.Webhooks, Outcomes: h.OutcomeWebhooks, Reports: h.deadTokens, Events: ledger.NewOutcomes(h.Queue, h.Prefix),
		Observer: h.Observer, Log: h.Log, RedisLog: h.RedisLog, Times: h.times.webhook,
	}) {
		h.side.run(deliver)
	}
	if h.ClockOffset != nil {
		h.side.run(func(ctx context.Context) { clock.Watch(ctx, h.Log, h.ClockOffset) })
	}
	return nil
}

// side is what runs beside the pipeline, until stopping ends.
type side struct {
	all      sync.WaitGroup
	stopping context.Context
	stop     context.CancelFunc
}

func newSide() *side {
	s := new(side)
	s.stopping, s.stop = context.WithCancel(context.Background())
	return s
}

// run runs f in a goroutine. f returns when its context ends.
func (s *side) run(f func(ctx context.Context)) {
	s.all.Go(func() { f(s.stopping) })
}
