// Package worker delivers queued notifications. It asks the limiter about each notification. A granted
// notification is sent; a deferred one returns to the queue until its slot.
//
// Start with Worker. handler.go has the pipeline: deliver takes a job through its steps. A visit is one
// pass of a job through the pipeline. A visit that sends something is an attempt.
//
// A visit sends only after the limiter granted the notification in that visit.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// Options configure a Worker. Queue, Limits and Senders are required; a program usually also sets
// Log. The rest has defaults.
type Options struct {
	// Queue is the Redis with asynq's queues: a redis.Client or a redis.ClusterClient
	// with ContextTimeoutEnabled.
	Queue  redis.UniversalClient
	Limits *limits.Policies
	// Senders send, by app and platform. A platform must be one of push.Platforms.
	Senders map[string]map[push.Platform]providers.Sender
	// Limiter keeps the users' timelines. If it is nil, the worker makes a limiter, Overrides,
	// Waiting and ClockOffset on Queue; these three must then be nil too.
	Limiter throttle.Planner
	// Overrides, if not nil, take precedence over Limits. The worker applies them to Limits,
	// and reschedules waiting notifications earlier when a limit is raised.
	Overrides *limits.Overrides
	// Waiting calls f for each user with waiting notifications (see throttle.Redis.Waiting). If it is
	// nil, a raised limit of a category, or the default one, reschedules a user's notifications only at
	// the next visit of one of them.
	Waiting func(ctx context.Context, f func(app, user string) error) error
	// Horizon is the longest gap or period that the limits may have, if the worker makes
	// the Limiter. 0 means 24 h.
	Horizon time.Duration
	// Meter counts quotas, throughputs and devices for all workers; nil for a Meter on Queue.
	Meter meter.Meter
	// Quotas limit an app's pushes to a platform, to all of its push services together.
	Quotas map[string]map[push.Platform]Quota
	// Throughputs limit an app's pushes of a category, to all users together.
	Throughputs map[string]map[string]Quota
	// Device returns the limit of each device, which the Meter counts; nil for none.
	Device func() meter.Spec
	// InFlight limits the concurrent pushes of all workers together to each push service,
	// by app and platform. 0 means that only Concurrency limits them.
	InFlight map[string]map[push.Platform]int
	// Observer receives the events for metrics; nil for NopObserver.
	Observer Observer
	Log      *slog.Logger // nil for slog.Default
	// RedisLog gets errors of Redis. They recur during an outage, which other components may log too. nil
	// means Log.
	RedisLog *slog.Logger
	// Tracer makes the spans of each notification, in the trace of its task's headers; nil for no spans.
	Tracer trace.Tracer
	// ClockOffset returns how far Redis's clock is ahead of this machine's, and the worker warns
	// of a large offset. It may be nil if a Limiter is given.
	ClockOffset func() time.Duration

	// Concurrency is how many notifications are in flight at once to each
	// provider of each app. 0 means 256.
	Concurrency int
	// Attempts is how many attempts a notification has before it is exhausted. RetryTime is
	// the longest time from its first attempt to its last, without the quiet hours that
	// delayed it. 0 means 10 and 6 h.
	Attempts  int
	RetryTime time.Duration
	// MaxBooked is how many notifications of one category of a user may hold slots. All of a user's
	// categories may hold twice as many. Beyond that, a new notification is rejected unless it is
	// critical. 0 means throttle.MaxEntries.
	MaxBooked int
	// ShutdownTimeout is how long Stop lets claimed jobs finish. 0 means 20 s.
	ShutdownTimeout time.Duration
	// Prefix begins all keys except asynq's. Producers must use the same prefix. "" means "pushpace".
	Prefix string
	// Shards is the number of shards, a power of two up to 256. Producers must use the same
	// number. 0 means 8 on a Cluster and 1 elsewhere.
	Shards int
	// IDRetention is how long an ID is remembered after its acceptance. Producers must use
	// the same duration. 0 means push.DefaultRetention.
	IDRetention time.Duration
	// DeadLetters is how many dead letters of an app are kept. 0 means
	// store.DefaultDeadLetters.
	DeadLetters int
	// Outcomes is about how many outcomes of an app's notifications are kept in a stream, for
	// OutcomeWebhooks and other readers; 0 for none.
	Outcomes int
	// Webhooks receive an app's dead tokens, by app. OutcomeWebhooks receive its
	// notifications' outcomes, and need Outcomes.
	Webhooks, OutcomeWebhooks map[string]webhook.Hook
	// Version is the version in the worker's snapshots.
	Version string

	host    string
	times   times
	records *store.Records
	proxy   *providers.Proxy
}

// A Quota limits the pushes of all workers together.
type Quota = route.Quota

func (o *Options) setDefaults() {
	o.Concurrency = cmp.Or(o.Concurrency, 256)
	o.Attempts = cmp.Or(o.Attempts, 10)
	o.RetryTime = cmp.Or(o.RetryTime, 6*time.Hour)
	o.MaxBooked = cmp.Or(o.MaxBooked, throttle.MaxEntries)
	o.ShutdownTimeout = cmp.Or(o.ShutdownTimeout, 20*time.Second)
	host, _ := os.Hostname()
	o.host = cmp.Or(host, "unknown")
	o.Observer = cmp.Or(o.Observer, Observer(NopObserver{}))
	o.Log = cmp.Or(o.Log, slog.Default())
	o.RedisLog = cmp.Or(o.RedisLog, o.Log)
}

// times are durations that tests shorten.
type times struct {
	route   route.Times
	webhook webhook.Times
	record  time.Duration // how long a failed write is retried; 0 means 10 s
	turn    time.Duration // how long a job waits for its turn; 0 means turnTimeout
}

// A Worker pulls jobs from the queues and delivers their notifications.
type Worker struct {
	h          *handler
	self       control.Snapshot // the constant fields of its snapshots
	tally      *tally
	draining   atomic.Bool
	closeOwned func() // closes the parts that the worker has made for itself

	mu        sync.Mutex
	state     state
	beginning sync.WaitGroup  // a begin in the background, after a failed read of pauses and limits
	pulling   []*queue.Server // nil until begin
	down      chan struct{}   // closed when all parts have ended
}

// New returns a worker that has not started yet. Stop it even if it never starts, so that it closes the
// parts that it has made for itself.
func New(o Options) (*Worker, error) {
	if o.Queue == nil || o.Limits == nil || len(o.Senders) == 0 {
		return nil, errors.New("worker: Queue, Limits and Senders are required")
	}
	if err := checkSenders(o.Senders); err != nil {
		return nil, err
	}
	o.setDefaults()
	closeOwned, err := o.complete()
	if err != nil {
		return nil, err
	}
	counted := newTally(o.Observer)
	o.Observer = counted
	return &Worker{h: newHandler(&o), self: identify(&o), tally: counted, closeOwned: closeOwned, down: make(chan struct{})}, nil
}

// checkSenders refuses a Sender for a platform that no notification can have.
func checkSenders(all map[string]map[push.Platform]providers.Sender) error {
	for app, platforms := range all {
		for platform, sender := range platforms {
			if !slices.Contains(push.Platforms(), platform) {
				return fmt.Errorf("worker: Senders: app %q: platform %q: must be apns, fcm or webpush: use one of these also for a Sender of a different provider", app, platform)
			}
			if sender == nil {
				return fmt.Errorf("worker: Senders: app %q: platform %q: is nil", app, platform)
			}
		}
	}
	return nil
}

// Producer returns a producer for the worker's queues, until the worker has stopped.
func (w *Worker) Producer() *push.Producer {
	return push.NewProducer(w.h.Queue, w.h.Prefix, w.h.IDRetention).WithShards(w.h.Shards)
}

// Routes returns the status of each route, sorted by app and platform.
func (w *Worker) Routes() []route.Status { return w.h.routes.Statuses() }

// Quotas returns the statistics of quotas and throughputs, in no order.
func (w *Worker) Quotas() []meter.Stats { return w.h.routes.Units.Stats() }

// Pauses returns the number of operators' pauses in force when this worker last read them.
func (w *Worker) Pauses() int { return w.h.holds.inForce.Load().Count(time.Now()) }

// Pulls reports whether pulls of at least one shard succeed. A pull also needs permissions, a primary and
// its scripts, not only a reachable Redis.
func (w *Worker) Pulls() bool {
	servers := w.h.servers.Load()
	return servers != nil && slices.ContainsFunc(*servers, (*queue.Server).Pulls)
}

// handlers returns the most jobs that a process claims at a time. Jobs that wait for slow providers or
// exhausted quotas leave room for other jobs.
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
	return min(most, routes*route.MaxClaimed(o.Concurrency)+quotas*meter.MostWaiting)
}
