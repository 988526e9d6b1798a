package worker

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/repeats"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/route"
	"github.com/pushpace/pushpace/worker/watch"
)

// A handler takes each notification along the pipeline. Each part has its own state.
type handler struct {
	*Options
	routing    routing
	collapsing *collapsing
	holds      *holds
	admission  *admission
	units      units
	sending    *sending
	settling   *settling
	slots      *slots
	taken      *taken
	tracing    tracing

	routes     *route.Routes
	deadTokens *ledger.DeadTokens
	control    *control.Control
	queue      *queue.Server
	repeats    *repeats.Log // what jobs can have it say again and again
	side       *side
}

func newHandler(o *Options) *handler {
	pauses := pause.NewStore(o.Queue, o.Prefix)
	routes := route.New(route.Config{
		Senders: o.Senders, Concurrency: o.Concurrency, Pauses: pauses, Observer: o.Observer, Log: o.Log, RedisLog: o.RedisLog,
		InFlight: o.InFlight, Shares: meter.NewRedisShares(o.Queue, o.Prefix), Meter: o.Meter, Quotas: o.Quotas, Throughputs: o.Throughputs,
		ClockOffset: o.ClockOffset, Host: o.host, Times: o.times.route,
	})
	h := &handler{
		Options: o, routes: routes, side: newSide(), repeats: new(repeats.Log), tracing: tracing{o.Tracer},
		deadTokens: ledger.NewDeadTokens(o.Queue, o.Prefix, o.DeadTokensKept),
		control:    control.New(o.Queue, o.records, o.Limiter, o.Limits),
	}
	h.queue = queue.NewServer(queue.Config{
		Client: o.Queue, Records: o.records, Handlers: o.handlers(), ShutdownTimeout: o.ShutdownTimeout,
		Stalled: routes.Stalled, SetAside: o.Observer.Ended, Log: o.Log, RedisLog: o.RedisLog,
	})
	feed := watch.NewFeed()
	h.routing = routing{o, routes}
	h.units = units{routes.Units}
	h.slots = newSlots(o, h.control)
	h.holds = &holds{Options: o, routes: routes, pauses: pauses, control: h.control, feed: feed, side: h.side}
	h.admission = newAdmission(o, h.queue, h.units, h.slots, h.tracing, h.repeats)
	h.sending = &sending{o, routes, h.units, devices{o, h.repeats}, h.holds, h.tracing}
	told := &events{o, feed, h.holds}
	h.taken = &taken{o, h.control, h.slots, told, h.repeats}
	h.collapsing = newCollapsing(o, h.slots, h.taken)
	h.settling = &settling{o, h.queue, h.deadTokens, h.holds, h.slots, told, h.repeats, newUnrecorded()}
	return h
}

// own is what ends the parts that a worker has made for itself, in the order in which
// they were made.
type own []func()

func (o own) close() {
	for _, end := range slices.Backward(o) {
		end()
	}
}

// complete makes the parts that the options leave out, on the same Redis and under the
// same prefix as the rest.
func (o *Options) complete() (own, error) {
	var made own
	if o.Limiter == nil {
		if o.Overrides != nil || o.Waiting != nil || o.ClockOffset != nil {
			return nil, errors.New("worker: Overrides, Waiting and ClockOffset are of the Limiter, which is nil: give them with theirs, or none")
		}
		o.Horizon = cmp.Or(o.Horizon, 24*time.Hour)
		if err := o.fits(); err != nil {
			return nil, err
		}
		shared, stop := pipeline.Share(o.Queue, pipeline.Options{})
		limiter, err := throttle.New(shared, throttle.Options{Prefix: o.Prefix, Horizon: o.Horizon})
		if err != nil {
			stop()
			return nil, fmt.Errorf("worker: Queue: %w", err)
		}
		made = own{stop, func() { _ = limiter.Close() }}
		o.Queue, o.Waiting, o.ClockOffset = shared, limiter.Waiting, limiter.ClockOffset
		o.Limiter = throttle.WithOutage(limiter, throttle.Closed, throttle.OutageOptions{Log: o.RedisLog})
		o.Overrides = limits.NewOverrides(o.Queue, o.Prefix, o.Horizon)
	}
	if o.Meter == nil {
		o.Meter = meter.NewRedis(o.Queue, o.Prefix)
	}
	o.records = ledger.NewRecords(o.Queue, o.Prefix, o.IDRetention).WithOutcomes(o.Outcomes)
	return made, nil
}

// fits reports the limit that the timelines do not reach back for, or that is not valid.
func (o *Options) fits() error {
	general, categories := o.Limits.Base()
	if err := general.Validate(o.Horizon); err != nil {
		return fmt.Errorf("worker: Limits: %w", err)
	}
	for name, p := range categories {
		if err := p.Validate(o.Horizon); err != nil {
			return fmt.Errorf("worker: Limits of category %q: %w", name, err)
		}
	}
	return nil
}
