package worker

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/route"
)

// A handler takes each notification along the pipeline.
type handler struct {
	*Options
	routes     *route.Routes
	pauses     *pause.Store
	deadTokens *push.DeadTokens
	control    *Control
	queue      *queue.Server
	asks       asks
	unrecorded unrecorded
	waiting    atomic.Int64 // notifications that wait in the process
	moved      chan []throttle.Booking
	overtaken  overtaken
	unacquired rarely // that a user's limits cannot be checked

	inForce       atomic.Pointer[pause.InForce] // as it was read last
	pausedReturns route.Stagger                 // of what operators have paused
	resuming      sync.Map                      // by selector: what is woken since its pause is over

	// side is what runs beside the pipeline, until stopping ends.
	side     sync.WaitGroup
	stopping context.Context
	stop     context.CancelFunc
}

func newHandler(o *Options) *handler {
	pauses := pause.NewStore(o.Queue, o.Prefix)
	routes := route.New(route.Config{
		Senders: o.Senders, Concurrency: o.Concurrency, Pauses: pauses, Observer: o.Observer, Log: o.Log, RedisLog: o.RedisLog,
		ClockOffset: o.ClockOffset, Host: o.host, Times: o.times.route,
	})
	h := &handler{
		Options: o, routes: routes, pauses: pauses,
		deadTokens: push.NewDeadTokens(o.Queue, o.Prefix, o.DeadTokensKept),
		control:    NewControl(o.Queue, o.Records, o.Limiter, o.Limits),
		moved:      make(chan []throttle.Booking, movedKept),
	}
	h.queue = queue.NewServer(queue.Config{
		Client: o.Queue, Records: o.Records, Lanes: o.Lanes, Handlers: o.handlers(), ShutdownTimeout: o.ShutdownTimeout,
		Stalled: routes.Stalled, SetAside: o.Observer.Ended, Log: o.Log, RedisLog: o.RedisLog,
	})
	h.stopping, h.stop = context.WithCancel(context.Background())
	return h
}

// Handle implements queue.Handler.
func (h *handler) Handle(ctx context.Context, job queue.Job) error {
	d, err := h.decode(ctx, &job)
	if err != nil {
		return h.setAside(ctx, &job, err)
	}
	if ended, err := h.resume(ctx, d); ended || err != nil {
		return orLater(err)
	}
	if !h.findRoutes(d) {
		return h.finish(ctx, d, h.conclude(d))
	}
	if d.expired(time.Now()) {
		return h.end(ctx, d, push.Expired, "expired in the queue")
	}
	if superseded, err := h.collapse(ctx, d); err != nil {
		return later(err)
	} else if superseded {
		return h.end(ctx, d, push.Superseded, "a newer one has the same collapse key")
	}
	if left := time.Until(d.NotBefore); left > h.MaxWait || left > 0 && h.full() {
		return queue.SnoozeUntil(whyDeferred, left)
	} else if err := h.waitOut(ctx, left); err != nil {
		return later(err)
	}
	if h.blocked(d) {
		return h.standBack(ctx, d)
	}
	d.needs = d.bulkheads()
	if err := h.turnedAway(d, time.Now()); err != nil {
		return err
	}
	for range lateTries {
		if over, err := h.depart(ctx, d); over {
			return err
		}
	}
	return later(errTooLate)
}

// depart sends the delivery when it is admitted. It answers false when it had no
// connection at its instant: at another one it may go.
func (h *handler) depart(ctx context.Context, d *delivery) (over bool, err error) {
	decision, err := h.admit(ctx, d)
	switch {
	case errors.Is(err, errBusy):
		h.giveBack(ctx, d, d.taken())
		return true, cmp.Or(h.turnedAway(d, time.Now()), error(queue.Snooze(whyBusy, route.BusyDelay)))
	case err != nil:
		return true, later(err)
	case decision.Status == throttle.Refused:
		return true, h.end(ctx, d, push.Expired, "would expire before its slot")
	case decision.Status == throttle.Deferred:
		return true, h.deferUntil(ctx, d, decision)
	}
	defer route.Release(d.needs)
	if d.expired(time.Now()) {
		return true, h.end(ctx, d, push.Expired, "expired before it was sent")
	}
	if h.send(ctx, d); d.missed() {
		return false, nil // with its admission, which keeps its place
	}
	return true, h.settle(ctx, d)
}

// A delivery is a notification on its way.
type delivery struct {
	*push.Notification
	accepted time.Time
	back     time.Time // when it went back to the queue last; zero at the first visit
	job      []byte
	queue    string
	// visits is how often asynq has counted a failure of the job: an attempt that
	// is to be repeated, or a worker that crashed with it.
	visits int
	replay bool
	// attempts and first are what the record tells of earlier attempts.
	attempts int
	first    time.Time
	slotted  bool              // it has waited here for its first slot
	routes   []*route.Route    // of each target; nil where there is none
	outcomes []outcome         // of each target
	needs    []*route.Bulkhead // of the routes that are to be taken
	paced    bool              // by limits, so that its instant counts
}

func (d *delivery) expired(now time.Time) bool {
	return !d.ExpiresAt.IsZero() && !now.Before(d.ExpiresAt)
}
