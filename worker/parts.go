package worker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/internal/base/logdedup"
	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/route"
)

// A handler takes notifications through the pipeline. Each part has its own state.
type handler struct {
	*Options
	routing   routing
	holds     *holds
	admission *admission
	units     units
	sender    *sender
	finisher  *finisher
	slots     *slots
	reclaimer *reclaimer
	tracing   tracing

	routes     *route.Routes
	deadTokens *store.DeadTokens
	control    *control.Control
	crowds     route.Crowds
	servers    atomic.Pointer[[]*queue.Server] // by shard; nil until serve
	repeats    *logdedup.Log                   // for log messages that many jobs would repeat
	background *background
}

func newHandler(o *Options) *handler {
	pauses := pause.NewStore(o.Queue, o.Prefix)
	routes := route.New(route.Config{
		Senders: o.Senders, Concurrency: o.Concurrency, Pauses: pauses, Observer: o.Observer, Log: o.Log, RedisLog: o.RedisLog,
		InFlight: o.InFlight, Shares: meter.NewRedisShares(o.Queue, o.Prefix), Meter: o.Meter, Quotas: o.Quotas, Throughputs: o.Throughputs,
		Times: o.times.route,
	})
	h := &handler{
		Options: o, routes: routes, background: newBackground(), repeats: new(logdedup.Log), tracing: tracing{o.Tracer},
		deadTokens: store.NewDeadTokens(o.records, 0),
		control:    control.New(o.Queue, o.records, o.Limiter, o.Limits),
	}
	h.routing = routing{o, routes}
	h.units = units{o, routes.Units, h.repeats}
	h.slots = newSlots(o, h.control)
	h.holds = &holds{Options: o, routes: routes, pauses: pauses, control: h.control}
	h.admission = newAdmission(o, h.units, h.slots, h.tracing, h.repeats)
	h.sender = &sender{o, routes, h.units, h.holds, h.tracing, h.repeats}
	told := &events{o}
	h.reclaimer = &reclaimer{Options: o, control: h.control, leads: h.leads, slots: h.slots, events: told, repeats: h.repeats}
	h.finisher = &finisher{o, h.deadTokens, h.slots, told, h.repeats, newUnrecorded()}
	return h
}

// serve makes a server for each shard.
func (h *handler) serve(ctx context.Context) ([]*queue.Server, error) {
	shards, err := h.records.All(ctx)
	if err != nil {
		return nil, err
	}
	budget := queue.NewBudget(h.handlers())
	servers := make([]*queue.Server, len(shards))
	for i, at := range shards {
		servers[i] = queue.NewServer(queue.Config{
			Client: h.Queue, Records: at, Budget: budget, ShutdownTimeout: h.ShutdownTimeout,
			Reserve: h.reserve, CanUnpark: h.canUnpark, SetAside: h.Observer.Ended, Log: h.Log, RedisLog: h.RedisLog,
		})
	}
	h.servers.Store(&servers)
	return servers, nil
}

// reserve implements queue.Config.Reserve.
func (h *handler) reserve(queueName string, most int, parked []string) ([]store.Bound, func([]queue.Job)) {
	now := time.Now()
	room := h.routes.Reserve(queueName, most, parked, h.holds.paused, now)
	return h.crowds.Bounds(room.Bounds, queueName, most, now), func(jobs []queue.Job) {
		names := make([]string, len(jobs))
		for i := range jobs {
			names[i] = push.OnlyRoute(jobs[i].Payload)
		}
		for i, arrived := range h.routes.Taken(room, names) {
			jobs[i].Arrived = arrived
		}
	}
}

// canUnpark implements queue.Config.CanUnpark.
func (h *handler) canUnpark(queue string, parked []string) bool {
	return h.routes.CanUnpark(queue, parked, h.holds.paused, time.Now())
}

// leads reports whether this worker does the tasks of the shard that need only one worker.
func (h *handler) leads(shard int) bool {
	servers := h.servers.Load()
	return servers != nil && (*servers)[shard].Leads()
}

// complete makes the parts that the options omit, on Queue and under Prefix. It returns a function
// that closes them.
func (o *Options) complete() (end func(), err error) {
	end = func() {}
	if o.proxy, err = providers.EnvironmentProxy(); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	if o.Limiter == nil {
		if end, err = o.makeLimiter(); err != nil {
			return nil, err
		}
	}
	if o.Meter == nil {
		o.Meter = meter.NewRedis(o.Queue, o.Prefix)
	}
	o.records = store.NewRecords(o.Queue, o.Prefix, o.IDRetention).WithShards(o.Shards).WithBounds(o.bounds())
	return end, nil
}

func (o *Options) bounds() store.Bounds {
	apps := make(map[string]bool, len(o.Senders))
	for app := range o.Senders {
		apps[app] = true
	}
	return store.Bounds{Outcomes: o.Outcomes, DeadLetters: o.DeadLetters, Apps: apps}
}

// makeLimiter makes a limiter, Overrides, Waiting and ClockOffset. It replaces Queue by a client on
// which concurrent commands share round trips.
func (o *Options) makeLimiter() (end func(), err error) {
	if o.Overrides != nil || o.Waiting != nil || o.ClockOffset != nil {
		return nil, errors.New("worker: Overrides, Waiting and ClockOffset need a Limiter")
	}
	shared, stop := pipeline.Share(o.Queue, pipeline.Options{})
	overrides := limits.NewOverrides(shared, o.Prefix, o.Horizon)
	limiter, err := throttle.New(shared, throttle.Options{Prefix: o.Prefix, Horizon: overrides.Horizon()})
	if err != nil {
		stop()
		return nil, fmt.Errorf("worker: Queue: %w", err)
	}
	end = func() {
		_ = limiter.Close()
		stop()
	}
	if err := validateLimits(o.Limits, overrides.Horizon()); err != nil {
		end()
		return nil, err
	}
	o.Queue, o.Overrides, o.Waiting, o.ClockOffset = shared, overrides, limiter.Waiting, limiter.ClockOffset
	o.Limiter = throttle.WithOutage(limiter, throttle.Closed, throttle.OutageOptions{Log: o.RedisLog})
	return end, nil
}

// validateLimits returns an error for an invalid policy, or a policy with a period beyond the horizon.
func validateLimits(l *limits.Policies, horizon time.Duration) error {
	general, categories := l.Base()
	if err := general.Validate(horizon); err != nil {
		return fmt.Errorf("worker: Limits: %w", err)
	}
	for name, p := range categories {
		if err := p.Validate(horizon); err != nil {
			return fmt.Errorf("worker: Limits of category %q: %w", name, err)
		}
	}
	return nil
}
