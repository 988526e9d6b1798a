// Package app puts the parts of the program together: a System holds them, Serve runs a System, and
// OpenLocal returns an API inside a command's process.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/telemetry/health"
	"github.com/pushpace/pushpace/internal/telemetry/metrics"
	"github.com/pushpace/pushpace/internal/telemetry/tracing"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker"
	"github.com/pushpace/pushpace/worker/webhook"
)

// A System holds a worker's parts, made from the configuration.
type System struct {
	Queue   redis.UniversalClient
	client  redis.UniversalClient // to the same Redis, without shared pipelines
	limiter *throttle.Outage
	limits  *limits.Policies
	// overrides replace parts of limits; a worker applies their changes to limits.
	overrides *limits.Overrides
	// lines reads the users' waiting notifications.
	lines   *throttle.Redis
	Records *store.Records
	Senders Senders
	quotas  operate.LiveQuotas
	device  atomic.Pointer[meter.Spec] // the limit of each device; nil for no limit
	meter   meter.Meter
	api     *apiServer // nil without the API
	// listeners are the listeners of the API and the metrics.
	listeners listeners
	tokens    operate.Tokens
	apps      operate.Apps   // of the configuration
	config    *config.Config // the configuration at the start
	// Observer receives the worker's events; may be nil.
	Observer worker.Observer
	metrics  *metrics.Metrics // nil without metrics
	waits    drawn            // for the metrics
	unread   unread           // for the metrics
	traces   *tracing.Tracing // nil without tracing
	health   *health.Health
	// lastReload reports whether the last reload succeeded, and the time of the last success.
	lastReload func() (ok bool, at time.Time)
	// allQuotas returns all quotas, even without an app that names them.
	allQuotas func() (operate.Quotas, error)
	// worker is nil before the worker has started.
	worker atomic.Pointer[worker.Worker]
	// watch monitors the queue's Redis, and limitsWatch the limits' own Redis, nil without one.
	// Both log to redisLog.
	watch, limitsWatch *redisconn.Watch
	redisLog           *slog.Logger
	// limitsRedis is the limits' own Redis, without shared pipelines; nil without one.
	limitsRedis redis.UniversalClient
	// clockOffset is how far Redis's clock is ahead.
	clockOffset func() time.Duration
	// folder holds the credentials of simulated apps; "" without such apps.
	folder string
	Closers
}

// LimitsOf returns the configured limits.
func LimitsOf(l config.Limits) *limits.Policies {
	policies := limits.New(l.General(), l.Policies())
	policies.SetUnknown(l.UnknownCategory)
	return policies
}

func (s *System) removeFolder() error { return os.RemoveAll(s.folder) }

// Open opens all parts. Warnings go to the log.
func Open(ctx context.Context, cfg *config.Config, pushes *standin.Ledger, log *slog.Logger) (*System, error) {
	s := &System{limits: LimitsOf(cfg.Limits)}
	warn(log, cfg.Warnings())
	if err := s.open(ctx, cfg, pushes, log); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func (s *System) open(ctx context.Context, cfg *config.Config, pushes *standin.Ledger, log *slog.Logger) (err error) {
	if len(simulatedApps(cfg.Apps)) > 0 {
		if s.folder, err = os.MkdirTemp("", "pushpace-"); err != nil {
			return err
		}
		s.Add(s.removeFolder) // after the senders, which watch the files in it
	}
	if s.Senders, err = OpenSenders(ctx, cfg.Apps, s.folder, pushes, log, &s.Closers); err != nil {
		return err
	}
	if s.quotas, err = operate.NewLiveQuotas(cfg); err != nil {
		return Misused(err)
	}
	queue, err := redisconn.Open(ctx, cfg.Redis, poolSize(cfg.Worker))
	if err != nil {
		return err
	}
	s.Add(queue.Close)
	warn(log, queue.Warnings)
	s.watch = queue.Watch(cfg.Redis, redisconn.WatchOptions{
		Name: "Redis", Effect: "nothing is accepted, and what waits there stays",
		NodeEffect: "what it holds is not reached, and waits", Log: log,
	})
	s.Add(s.watch.Close)
	shared, stop := pipeline.Share(queue.Client, pipeline.Options{Timeout: cfg.Redis.Timeout})
	s.Add(func() error { stop(); return nil })
	s.Queue, s.client = shared, queue.Client
	s.overrides = limits.NewOverrides(s.Queue, cfg.Redis.Prefix, cfg.Limits.Horizon)
	s.meter = meter.NewRedis(s.Queue, cfg.Redis.Prefix)
	s.Records = store.NewRecords(s.Queue, cfg.Redis.Prefix, cfg.Worker.IDRetention).WithShards(cfg.Redis.Shards).WithBounds(bounds(cfg))
	if err := checkShards(ctx, s.Records); err != nil {
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
	s.Add(limiter.Close)
	s.clockOffset, s.lines = limiter.ClockOffset, limiter
	s.limiter = throttle.WithOutage(limiter, cfg.Limits.OnOutage, throttle.OutageOptions{Log: s.redisLog})
	return nil
}

// checkShards returns an error if the numbers of shards in Redis and in the configuration differ.
func checkShards(ctx context.Context, records *store.Records) error {
	_, err := records.All(ctx)
	if wrong := new(shard.WrongError); errors.As(err, &wrong) {
		return Misused(err)
	}
	return err
}

// timelines is the limiter's storage.
type timelines struct {
	client redis.UniversalClient
	prefix string
	watch  *redisconn.Watch // nil for the queue's Redis
}

// openTimelines returns the queue's Redis if the limiter shares its round trips, or the
// limiter's own connection.
func (s *System) openTimelines(ctx context.Context, cfg *config.Config, log *slog.Logger) (timelines, error) {
	own := cfg.Limits.Redis
	if own == nil {
		return timelines{client: s.Queue, prefix: cfg.Redis.Prefix}, nil
	}
	conn, err := redisconn.Open(ctx, *own, poolSize(cfg.Worker))
	if err != nil {
		return timelines{}, fmt.Errorf("limits.redis: %w", err)
	}
	s.Add(conn.Close)
	warn(log, conn.Warnings)
	effect := "waits"
	if cfg.Limits.OnOutage == throttle.Open {
		effect = "goes out unchecked"
	}
	watch := conn.Watch(*own, redisconn.WatchOptions{
		Name: "the limits' Redis", Effect: "what a limit is to check " + effect,
		NodeEffect: "what a limit of its users is to check " + effect, Log: log})
	s.Add(watch.Close)
	shared, stop := pipeline.Share(conn.Client, pipeline.Options{Timeout: own.Timeout})
	s.Add(func() error { stop(); return nil })
	s.limitsRedis = conn.Client
	return timelines{shared, own.Prefix, watch}, nil
}

// maxPool bounds the connections to one Redis.
const maxPool = 1024

// poolSize counts a connection for every push in flight, and 32 for the process's other commands.
func poolSize(w config.Worker) int { return min(maxPool, w.Concurrency+32) }

func warn(log *slog.Logger, warnings []string) {
	for _, w := range warnings {
		log.Warn(w)
	}
}

// bounds returns the number of dead letters and outcomes that each app keeps.
func bounds(cfg *config.Config) store.Bounds {
	apps := make(map[string]bool, len(cfg.Apps))
	for app := range cfg.Apps {
		apps[app] = true
	}
	return store.Bounds{Outcomes: cfg.Worker.Outcomes, DeadLetters: cfg.Worker.DeadLetters, Apps: apps}
}

// NewWorker returns a worker on the system.
func (s *System) NewWorker(cfg *config.Config, log *slog.Logger) (*worker.Worker, error) {
	w := cfg.Worker
	o := worker.Options{
		Queue: s.Queue, Limiter: s.limiter, Limits: s.limits, Senders: s.Senders,
		Overrides: s.overrides, Waiting: s.lines.Waiting,
		Observer: s.Observer, Tracer: s.traces.Tracer(), Log: log, RedisLog: s.redisLog, ClockOffset: s.clockOffset,
		Concurrency: w.Concurrency, Attempts: w.Attempts, RetryTime: w.RetryTime,
		MaxBooked: cfg.Limits.MaxBooked, ShutdownTimeout: sendTime(w.ShutdownTimeout),
		Prefix: cfg.Redis.Prefix, Shards: cfg.Redis.Shards, IDRetention: w.IDRetention, DeadLetters: w.DeadLetters, Outcomes: w.Outcomes, Webhooks: webhooks(cfg.Apps, deadTokenHook), OutcomeWebhooks: webhooks(cfg.Apps, outcomeHook), Version: BuildVersion().Version,
	}
	if err := s.limitTogether(&o, cfg); err != nil {
		return nil, err
	}
	return worker.New(o)
}

// webhooks returns the webhooks of a kind, by app.
func webhooks(apps map[string]config.App, hookOf func(config.App) *config.Webhook) map[string]webhook.Hook {
	all := map[string]webhook.Hook{}
	for name, app := range apps {
		if hook := hookOf(app); hook != nil {
			keys, _ := hook.Keys() // the configuration's check has refused invalid keys
			all[name] = webhook.Hook{URL: string(hook.URL), Keys: keys, Timeout: hook.Timeout}
		}
	}
	return all
}

func deadTokenHook(app config.App) *config.Webhook { return app.DeadTokens.Webhook }
func outcomeHook(app config.App) *config.Webhook   { return app.Outcomes.Webhook }

// Admissions returns the instant of each notification's last admission, by its ID and in this
// machine's time. It reads the users' general limits, which leave out exempt categories.
func (s *System) Admissions(ctx context.Context, app string, users []string) (map[string]time.Time, error) {
	ahead, err := s.clockAhead(ctx)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	at := map[string]time.Time{}
	readers, ctx := errgroup.WithContext(ctx)
	readers.SetLimit(64)
	for _, user := range users {
		readers.Go(func() error {
			t, err := s.lines.Timeline(ctx, throttle.Request{App: app, User: user, Scopes: s.limits.Scopes(app, user, "")})
			mu.Lock()
			defer mu.Unlock()
			for _, entries := range t.Admissions {
				for _, e := range entries {
					at[e.ID] = e.At.Add(-ahead)
				}
			}
			return err
		})
	}
	return at, readers.Wait()
}

// clockAhead returns how far the clock of the limits' Redis is ahead of this machine's clock,
// measured by the fastest of ten answers.
func (s *System) clockAhead(ctx context.Context) (ahead time.Duration, err error) {
	client := cmp.Or(s.limitsRedis, s.client)
	fastest := time.Duration(math.MaxInt64)
	for range 10 {
		asked := time.Now()
		at, err := client.Time(ctx).Result()
		if err != nil {
			return 0, err
		}
		if took := time.Since(asked); took < fastest {
			fastest, ahead = took, at.Sub(asked.Add(took/2))
		}
	}
	return ahead, nil
}
