package worker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/repeats"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/route"
	"github.com/pushpace/pushpace/worker/watch"
)

// A handler takes each notification along the pipeline.
type handler struct {
	*Options
	routes     *route.Routes
	pauses     *pause.Store
	deadTokens *ledger.DeadTokens
	control    *control.Control
	queue      *queue.Server
	lines      *lines
	unrecorded unrecorded
	feed       *watch.Feed
	waiting    atomic.Int64 // notifications that wait in the process
	moved      chan []throttle.Booking
	// overtaken are older notifications that some worker had in its hands, beyond its
	// look at the collapse key, when a newer one came, by ID; and when that was.
	overtaken *lru.Cache[string, time.Time]
	repeats   repeats.Log // what jobs can have it say again and again

	inForce  atomic.Pointer[pause.InForce] // as it was read last
	looks    route.Stagger                 // of what is blocked
	resuming sync.Map                      // by selector or route: what is woken since it is not blocked any more

	// side is what runs beside the pipeline, until stopping ends.
	side     sync.WaitGroup
	stopping context.Context
	stop     context.CancelFunc
}

func newHandler(o *Options) *handler {
	pauses := pause.NewStore(o.Queue, o.Prefix)
	routes := route.New(route.Config{
		Senders: o.Senders, Concurrency: o.Concurrency, Pauses: pauses, Observer: o.Observer, Log: o.Log, RedisLog: o.RedisLog,
		InFlight: o.InFlight, Shares: meter.NewRedisShares(o.Queue, o.Prefix), Meter: o.Meter, Quotas: o.Quotas, Throughputs: o.Throughputs,
		ClockOffset: o.ClockOffset, Host: o.host, Times: o.times.route,
	})
	overtaken, _ := lru.New[string, time.Time](overtakenMost) // which fails for sizes below 1
	h := &handler{
		Options: o, routes: routes, pauses: pauses,
		deadTokens: ledger.NewDeadTokens(o.Queue, o.Prefix, o.DeadTokensKept),
		control:    control.New(o.Queue, o.Records, o.Limiter, o.Limits),
		unrecorded: newUnrecorded(), overtaken: overtaken, feed: watch.NewFeed(),
		moved: make(chan []throttle.Booking, movedKept),
	}
	h.lines = newLines(h.askTogether)
	h.queue = queue.NewServer(queue.Config{
		Client: o.Queue, Records: o.Records, Lanes: o.Lanes, Handlers: o.handlers(), ShutdownTimeout: o.ShutdownTimeout,
		Stalled: routes.Stalled, SetAside: o.Observer.Ended, Log: o.Log, RedisLog: o.RedisLog,
	})
	h.stopping, h.stop = context.WithCancel(context.Background())
	return h
}

// Take implements queue.Handler: a job has its turn in the order of acceptance from here
// on.
func (h *handler) Take(job queue.Job) queue.Work {
	d, err := h.decode(&job)
	if err != nil {
		return func(ctx context.Context) error { return h.setAside(ctx, &job, err) }
	}
	h.lines.enter(d)
	return func(ctx context.Context) error {
		h.traceDelivery(ctx, d, &job)
		return h.Handle(ctx, d)
	}
}

// Handle works off a delivery.
func (h *handler) Handle(ctx context.Context, d *delivery) error {
	defer h.lines.leave(d)
	if d.term.Lost(ctx) {
		return queue.ErrLost
	}
	// what a provider is sent keeps its places until that is recorded: while it cannot
	// be, nothing more is sent
	defer func() { h.giveUnitsBack(d); route.Release(d.inside) }()
	return h.dispose(ctx, d, h.deliver(ctx, d))
}

// deliver takes the delivery along the pipeline, and returns what is to become of it.
func (h *handler) deliver(ctx context.Context, d *delivery) disposition {
	if to, over := h.loadRecord(ctx, d); over {
		return to
	}
	if !h.findRoutes(d) {
		return h.conclude(d)
	}
	if d.expired(time.Now()) {
		return d.cutShort(push.Expired, "expired in the queue")
	}
	if superseded, err := h.collapse(ctx, d); err != nil {
		return later(err)
	} else if superseded {
		return d.cutShort(push.Superseded, "a newer one has the same collapse key")
	}
	if left := time.Until(d.NotBefore); left > h.MaxWait || left > 0 && h.full() {
		return until(left)
	} else if err := h.waitOut(ctx, left); err != nil {
		return later(err)
	}
	if h.blocked(d) {
		return h.snoozeBlocked(d)
	}
	d.needs = d.bulkheads()
	if to, away := h.turnedAway(d, time.Now()); away {
		return to
	}
	for range lateTries {
		if to, over := h.depart(ctx, d); over {
			return to
		}
	}
	return later(errTooLate)
}

// depart sends the delivery when it is admitted. It returns false when it had no
// connection at its instant: at another one it may go.
func (h *handler) depart(ctx context.Context, d *delivery) (to disposition, over bool) {
	decision, err := h.admit(ctx, d)
	switch {
	case errors.Is(err, errBusy):
		return h.busy(d), true
	case errors.Is(err, errOverQuota):
		return snooze(d.overQuota()), true
	case err != nil:
		return later(err), true
	case decision.Status == throttle.Refused:
		return d.cutShort(push.Expired, "would expire before its slot"), true
	case decision.Status == throttle.Deferred:
		return d.postpone(decision), true
	}
	if d.expired(time.Now()) {
		return d.cutShort(push.Expired, "expired before it was sent"), true
	}
	if h.send(ctx, d); d.missed() {
		return to, false // with its place, and its admission, which may still do
	}
	if d.lacks() != nil && !d.sent() {
		return snooze(d.overQuota()), true
	}
	return h.settle(d), true
}
