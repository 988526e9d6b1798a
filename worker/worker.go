// Package worker takes notifications from the queue, asks the throttle, sends
// what is allowed and puts off the rest.
package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/route"
	"github.com/pushpace/pushpace/worker/webhook"
)

// Options say what a Worker works with. Queue, Limits and Senders are required.
type Options struct {
	// Queue is the Redis that asynq's queues are on, a redis.Client or a
	// redis.ClusterClient with ContextTimeoutEnabled.
	Queue  redis.UniversalClient
	Limits *limits.Policies
	// Senders by app and platform.
	Senders map[string]map[push.Platform]providers.Sender
	// Limiter keeps the users' timelines. When it is nil the worker makes one on Queue,
	// and what belongs to it: Overrides, Waiting and ClockOffset.
	Limiter throttle.Planner
	// Overrides, if not nil, are above Limits: the worker keeps Limits in step with
	// them, and moves those who wait forward when a limit is raised.
	Overrides *limits.Overrides
	// Waiting tells of the users who wait for a scope's limits (see
	// throttle.Redis.Waiting). When it is nil, a raised limit of a category, or of
	// the default, moves only those forward who come.
	Waiting func(ctx context.Context, f func(app, user string) error) error
	// Horizon is the longest gap or period that the limits may have, where the worker makes
	// the Limiter. 0 means 24 h.
	Horizon time.Duration
	// Meter counts what all workers do together; nil for one on Queue.
	Meter meter.Meter
	// Quotas are those of the providers, by app and platform: of all of its push services
	// together.
	Quotas map[string]map[push.Platform]Quota
	// Throughputs are those of categories over all users of an app, by app and category.
	Throughputs map[string]map[string]Quota
	// Device is how many pushes each device gets, of the Meter; nil for any number.
	Device func() meter.Spec
	// InFlight is how many pushes may be in flight from all workers together to each push
	// service, by app and platform; 0 for no bound but Concurrency.
	InFlight map[string]map[push.Platform]int
	// Observer is told what happens; nil for Nobody.
	Observer Observer
	Log      *slog.Logger // nil for slog.Default
	// RedisLog is told what fails for want of a Redis, over and over: somebody else
	// may tell of that Redis already. nil for Log.
	RedisLog *slog.Logger
	// Tracer makes spans of what happens to each notification, as parts of the
	// trace that its task's headers name; nil for none.
	Tracer trace.Tracer
	// ClockOffset returns how far Redis's clock is ahead of this machine's; nil when a
	// Limiter is given and nobody knows. Being out of step is warned of.
	ClockOffset func() time.Duration

	// Concurrency is how many notifications are in flight at once to each
	// provider of each app. 0 means 256.
	Concurrency int
	// Attempts is how often a notification is sent before it is exhausted, and
	// RetryTime how long after the first attempt the last may be, without the
	// quiet hours that hold it. 0 means 10 and 6 h.
	Attempts  int
	RetryTime time.Duration
	// MaxBooked is how many of a user's notifications may hold slots. One more that is new
	// and not critical is rejected. 0 means throttle.MaxEntries.
	MaxBooked int
	// ShutdownTimeout bounds the end of what is under way. 0 means 20 s.
	ShutdownTimeout time.Duration
	// Prefix begins all keys but those of asynq, and is the producers' too. "" means
	// "pushpace".
	Prefix string
	// Shards is the number of shards, as for the producers: a power of two up to 256. 0 means
	// 8 on a Cluster and 1 elsewhere.
	Shards int
	// IDRetention is for how long an ID is known after its acceptance, as for the
	// producers. 0 means push.DefaultRetention.
	IDRetention time.Duration
	// DeadLetters is how many dead letters of an app are kept. 0 means
	// store.DefaultDeadLetters.
	DeadLetters int
	// Outcomes is about how many ends of an app's notifications are kept in a stream, for
	// OutcomeWebhooks and other readers; 0 for none.
	Outcomes int
	// Webhooks are told of an app's dead tokens, by app, and OutcomeWebhooks of how
	// its notifications end, which takes Outcomes.
	Webhooks, OutcomeWebhooks map[string]webhook.Hook
	// Version is what the worker's snapshots say that it is of.
	Version string

	host    string // the machine's name
	times   times
	records *store.Records
	proxy   *providers.Proxy
}

// A Quota is what all workers together may send of something.
type Quota = route.Quota

func (o *Options) setDefaults() {
	o.Concurrency = cmp.Or(o.Concurrency, 256)
	o.Attempts = cmp.Or(o.Attempts, 10)
	o.RetryTime = cmp.Or(o.RetryTime, 6*time.Hour)
	o.MaxBooked = cmp.Or(o.MaxBooked, throttle.MaxEntries)
	o.ShutdownTimeout = cmp.Or(o.ShutdownTimeout, 20*time.Second)
	host, _ := os.Hostname()
	o.host = cmp.Or(host, "unknown")
	o.Observer = cmp.Or(o.Observer, Observer(Nobody{}))
	o.Log = cmp.Or(o.Log, slog.Default())
	o.RedisLog = cmp.Or(o.RedisLog, o.Log)
}

// times are how long things take that tests have no time for.
type times struct {
	route   route.Times
	webhook webhook.Times
	record  time.Duration // that a write which fails is repeated; 0 means 10 s
}

// A Worker works off the queues.
type Worker struct {
	h *handler
	// self is what does not change of the worker's snapshots.
	self     control.Snapshot
	tally    *tally
	draining atomic.Bool
	endOwn   func() // ends what the worker has made for itself

	mu        sync.Mutex
	state     state
	beginning sync.WaitGroup  // what begins later than the start
	pulling   []*queue.Server // from its beginning on
	down      chan struct{}   // closed when all is put down
}

// New returns a worker that has not started yet. One that never starts is to be stopped too,
// which closes what it has made for itself.
func New(o Options) (*Worker, error) {
	if o.Queue == nil || o.Limits == nil || len(o.Senders) == 0 {
		return nil, errors.New("worker: Queue, Limits and Senders are required")
	}
	o.setDefaults()
	endOwn, err := o.complete()
	if err != nil {
		return nil, err
	}
	counted := &tally{Observer: o.Observer}
	o.Observer = counted
	return &Worker{h: newHandler(&o), self: identify(&o), tally: counted, endOwn: endOwn, down: make(chan struct{})}, nil
}

// Producer returns a producer for the worker's queues, until the worker has stopped.
func (w *Worker) Producer() *push.Producer {
	return push.NewProducer(w.h.Queue, w.h.Prefix, w.h.IDRetention).WithShards(w.h.Shards)
}

// Routes returns how each route is, sorted by app and platform.
func (w *Worker) Routes() []route.Status { return w.h.routes.Statuses() }

// Quotas returns what is known of the quotas and throughputs, in no order.
func (w *Worker) Quotas() []meter.Stats { return w.h.routes.Units.Stats() }

// Pauses is how many operators' pauses are in force, as this worker knows it.
func (w *Worker) Pauses() int { return w.h.holds.inForce.Load().Count(time.Now()) }

// Pulls reports whether the worker gets an answer when it asks Redis for jobs, of one shard
// at least, which takes more than that it answers: rights, a primary, its scripts.
func (w *Worker) Pulls() bool {
	servers := w.h.servers.Load()
	return servers != nil && slices.ContainsFunc(*servers, (*queue.Server).Pulls)
}

// handlers is how many jobs a process has in hand at most: so many that those
// of slow providers and used up quotas, each before its own gate, leave places for the
// others.
func (o *Options) handlers() int {
	const most = 8192 // each is a goroutine and a notification, some 10 kB
	routes := 1
	for _, platforms := range o.Senders {
		for platform := range platforms {
			routes += len(push.Services(platform))
		}
	}
	quotas := 0
	for _, platforms := range o.Quotas {
		quotas += len(platforms)
	}
	for _, categories := range o.Throughputs {
		quotas += len(categories)
	}
	return min(most, routes*route.InHand(o.Concurrency)+quotas*meter.MostWaiting)
}
