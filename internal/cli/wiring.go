package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/access"
	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/health"
	"github.com/pushpace/pushpace/internal/metrics"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/quotas"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/tracing"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker"
	"github.com/pushpace/pushpace/worker/webhook"
)

// A system is what a worker works with, made from the configuration.
type system struct {
	queue   redis.UniversalClient
	client  redis.UniversalClient // of the same Redis, without shared pipelines
	limiter *throttle.Outage
	limits  *limits.Policies
	// overrides are above limits, which a worker keeps in step with them.
	overrides *limits.Overrides
	// lines tell of those who wait for limits.
	lines   *throttle.Redis
	records *store.Records
	senders senders
	quotas  quotas.Live
	device  atomic.Pointer[meter.Spec] // what each device gets; nil for any number
	meter   meter.Meter
	api     *apiServer // nil where there is none
	// listeners have the addresses that it answers on.
	listeners listeners
	tokens    access.Tokens
	apps      operate.Apps   // of the configuration
	config    *config.Config // that it was made from
	// observer is told what the worker does; nil for nobody.
	observer worker.Observer
	metrics  *metrics.Metrics // nil for none
	waits    drawn            // for the metrics
	unread   unread           // of them
	traces   *tracing.Tracing // nil for none
	health   *health.Health
	// lastReload returns how the last reload went, and when one was last taken over.
	lastReload func() (ok bool, at time.Time)
	// allQuotas are the quotas, and those that no app names.
	allQuotas func() (quotas.Quotas, error)
	// worker is there once it has started.
	worker atomic.Pointer[worker.Worker]
	// watch tells of the queue's Redis in trouble, and limitsWatch of the limits' own,
	// nil where they have none. What fails meanwhile is told to redisLog.
	watch, limitsWatch *redisconn.Watch
	redisLog           *slog.Logger
	// limitsRedis is that of their own, without shared pipelines; nil for none.
	limitsRedis redis.UniversalClient
	// clockOffset is how far Redis's clock is ahead.
	clockOffset func() time.Duration
	// folder holds the credentials of simulated apps; "" for none.
	folder string
	closers
}

// limitsOf are the configured limits.
func limitsOf(l config.Limits) *limits.Policies {
	policies := limits.New(l.General(), l.Policies())
	policies.SetUnknown(l.UnknownCategory)
	return policies
}

func (s *system) removeFolder() error { return os.RemoveAll(s.folder) }

// openSystem opens everything. What it warns of goes to the log.
func openSystem(ctx context.Context, cfg *config.Config, pushes *standin.Ledger, log *slog.Logger) (*system, error) {
	s := &system{limits: limitsOf(cfg.Limits)}
	warn(log, cfg.Warnings())
	if err := s.open(ctx, cfg, pushes, log); err != nil {
		_ = s.close()
		return nil, err
	}
	return s, nil
}

func (s *system) open(ctx context.Context, cfg *config.Config, pushes *standin.Ledger, log *slog.Logger) (err error) {
	if anySimulated(cfg.Apps) {
		if s.folder, err = os.MkdirTemp("", "pushpace-"); err != nil {
			return err
		}
		s.add(s.removeFolder) // after the senders, which watch what is in it
	}
	if s.senders, err = openSenders(ctx, cfg.Apps, s.folder, pushes, log, &s.closers); err != nil {
		return err
	}
	if s.quotas, err = quotas.NewLive(cfg); err != nil {
		return misused(err)
	}
	queue, err := redisconn.Open(ctx, cfg.Redis, poolSize(cfg.Worker))
	if err != nil {
		return err
	}
	s.add(queue.Close)
	warn(log, queue.Warnings)
	s.watch = queue.Watch(cfg.Redis, redisconn.WatchOptions{
		Name: "Redis", Effect: "nothing is accepted, and what waits there stays",
		NodeEffect: "what it holds is not reached, and waits", Log: log,
	})
	s.add(s.watch.Close)
	shared, stop := pipeline.Share(queue.Client, pipeline.Options{Timeout: cfg.Redis.Timeout})
	s.add(func() error { stop(); return nil })
	s.queue, s.client = shared, queue.Client
	s.overrides = limits.NewOverrides(s.queue, cfg.Redis.Prefix, cfg.Limits.Horizon)
	s.meter = meter.NewRedis(s.queue, cfg.Redis.Prefix)
	s.records = store.NewRecords(s.queue, cfg.Redis.Prefix, cfg.Worker.IDRetention).WithShards(cfg.Redis.Shards).WithBounds(bounds(cfg))
	if err := checkShards(ctx, s.records); err != nil {
		return err
	}
	timelines, err := s.openTimelines(ctx, cfg, log)
	if err != nil {
		return err
	}
	s.redisLog = redisconn.Quiet(log, s.watch)
	if s.limitsWatch = timelines.watch; s.limitsWatch != nil {
		s.redisLog = redisconn.Quiet(log, s.watch, s.limitsWatch)
	}
	s.health = health.New(s.checks()...)
	limiter, err := throttle.New(timelines.client, throttle.Options{Prefix: timelines.prefix, Horizon: cfg.Limits.Horizon})
	if err != nil {
		return err
	}
	s.add(limiter.Close)
	s.clockOffset, s.lines = limiter.ClockOffset, limiter
	s.limiter = throttle.WithOutage(limiter, cfg.Limits.OnOutage, throttle.OutageOptions{Log: s.redisLog})
	return nil
}

// checkShards returns an error if Redis has another number of shards than the configuration.
func checkShards(ctx context.Context, records *store.Records) error {
	_, err := records.All(ctx)
	if wrong := new(shard.WrongError); errors.As(err, &wrong) {
		return misused(err)
	}
	return err
}

// timelines are where the limiter keeps what it knows.
type timelines struct {
	client redis.UniversalClient
	prefix string
	watch  *redisconn.Watch // nil where it is the queue's Redis
}

// openTimelines returns the queue's Redis, whose round trips the limiter shares,
// or connects the limiter to its own.
func (s *system) openTimelines(ctx context.Context, cfg *config.Config, log *slog.Logger) (timelines, error) {
	own := cfg.Limits.Redis
	if own == nil {
		return timelines{client: s.queue, prefix: cfg.Redis.Prefix}, nil
	}
	conn, err := redisconn.Open(ctx, *own, poolSize(cfg.Worker))
	if err != nil {
		return timelines{}, fmt.Errorf("limits.redis: %w", err)
	}
	s.add(conn.Close)
	warn(log, conn.Warnings)
	effect := "waits"
	if cfg.Limits.OnOutage == throttle.Open {
		effect = "goes out unchecked"
	}
	watch := conn.Watch(*own, redisconn.WatchOptions{
		Name: "the limits' Redis", Effect: "what a limit is to check " + effect,
		NodeEffect: "what a limit of its users is to check " + effect, Log: log})
	s.add(watch.Close)
	shared, stop := pipeline.Share(conn.Client, pipeline.Options{Timeout: own.Timeout})
	s.add(func() error { stop(); return nil })
	s.limitsRedis = conn.Client
	return timelines{shared, own.Prefix, watch}, nil
}

// maxPool bounds the connections to one Redis.
const maxPool = 1024

// poolSize is enough for every push in flight and for what the process does besides.
func poolSize(w config.Worker) int { return min(maxPool, w.Concurrency+32) }

func warn(log *slog.Logger, warnings []string) {
	for _, w := range warnings {
		log.Warn(w)
	}
}

// bounds say how much is kept of each app.
func bounds(cfg *config.Config) store.Bounds {
	apps := make(map[string]bool, len(cfg.Apps))
	for app := range cfg.Apps {
		apps[app] = true
	}
	return store.Bounds{Outcomes: cfg.Worker.Outcomes, DeadLetters: cfg.Worker.DeadLetters, Apps: apps}
}

// newWorker returns a worker on the system.
func (s *system) newWorker(cfg *config.Config, log *slog.Logger) (*worker.Worker, error) {
	w := cfg.Worker
	o := worker.Options{
		Queue: s.queue, Limiter: s.limiter, Limits: s.limits, Senders: s.senders,
		Overrides: s.overrides, Waiting: s.lines.Waiting,
		Observer: s.observer, Tracer: s.traces.Tracer(), Log: log, RedisLog: s.redisLog, ClockOffset: s.clockOffset,
		Concurrency: w.Concurrency, Attempts: w.Attempts, RetryTime: w.RetryTime,
		MaxBooked: cfg.Limits.MaxBooked, ShutdownTimeout: sendTime(w.ShutdownTimeout),
		Prefix: cfg.Redis.Prefix, Shards: cfg.Redis.Shards, IDRetention: w.IDRetention, DeadLetters: w.DeadLetters, Outcomes: w.Outcomes, DeadTokensKept: w.DeadTokens, Webhooks: webhooks(cfg.Apps, deadTokenHook), OutcomeWebhooks: webhooks(cfg.Apps, outcomeHook), Version: buildVersion().Version,
	}
	if err := s.limitTogether(&o, cfg); err != nil {
		return nil, err
	}
	return worker.New(o)
}

// webhooks are those of a kind, by app.
func webhooks(apps map[string]config.App, hookOf func(config.App) *config.Webhook) map[string]webhook.Hook {
	all := map[string]webhook.Hook{}
	for name, app := range apps {
		if hook := hookOf(app); hook != nil {
			all[name] = webhook.Hook{URL: string(hook.URL), Secret: []byte(hook.Secret), Timeout: hook.Timeout}
		}
	}
	return all
}

func deadTokenHook(app config.App) *config.Webhook { return app.DeadTokens.Webhook }
func outcomeHook(app config.App) *config.Webhook   { return app.Outcomes.Webhook }
