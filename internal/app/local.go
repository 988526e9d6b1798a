package app

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"os/user"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/api"
	"github.com/pushpace/pushpace/internal/api/apiclient"
	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/control"
)

// connections bounds the connections to the queue's Redis.
const connections = 32

// OpenLocal returns the client of an API inside this process, on the configuration's Redis. Its
// overrides, its pauses and the audit log name by as the operator.
func OpenLocal(ctx context.Context, configured, by string) (*apiclient.Client, error) {
	cfg, err := LoadReachable(configured)
	if err != nil {
		return nil, err
	}
	redisconn.LogTo(slog.New(slog.DiscardHandler)) // the returned errors report the failures
	opened := new(Closers)
	service, err := openService(ctx, cfg, opened)
	if err != nil {
		_ = opened.Close()
		return nil, err
	}
	local := api.New(api.Options{Service: service, Local: &operate.Principal{Name: by, Role: config.Operator}, Log: slog.New(slog.DiscardHandler)})
	opened.Add(func() error { local.Close(); return nil })
	return apiclient.NewLocal(local, opened.Close), nil
}

// openService connects to the configuration's Redis. If the limits have their own Redis, the
// first command to that Redis connects.
func openService(ctx context.Context, cfg *config.Config, opened *Closers) (*operate.Service, error) {
	queue, err := redisconn.Open(ctx, cfg.Redis, connections)
	if err != nil {
		return nil, err
	}
	opened.Add(queue.Close)
	shared, stop := pipeline.Share(queue.Client, pipeline.Options{Timeout: cfg.Redis.Timeout})
	opened.Add(func() error { stop(); return nil })
	records := store.NewRecords(shared, cfg.Redis.Prefix, cfg.Worker.IDRetention).WithShards(cfg.Redis.Shards).WithBounds(bounds(cfg))
	if err := checkShards(ctx, records); err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	traces, err := startTracing(ctx, cfg.Telemetry.Tracing, log)
	if err != nil {
		return nil, err
	}
	opened.Add(traces.Close)
	prefix := cfg.Redis.Prefix
	o := operate.Options{
		Producer:  traces.Producer(push.NewProducer(shared, prefix, cfg.Worker.IDRetention).WithShards(cfg.Redis.Shards).WithTimeZone(cfg.Limits.TimeZone)),
		Records:   records,
		Limits:    LimitsOf(cfg.Limits),
		Overrides: limits.NewOverrides(queue.Client, prefix, cfg.Limits.Horizon),
		Meter:     meter.NewRedis(queue.Client, prefix),
		Quotas: func() (operate.Quotas, error) {
			all, err := operate.ConfiguredQuotas(cfg)
			return operate.Quotas(slices.Collect(maps.Values(all))).WithUnnamed(cfg), err
		},
		Apps: AppsOf(cfg), Queue: queue.Client, Log: log,
	}
	timelines := queue.Client
	if own := cfg.Limits.Redis; own != nil {
		conn, err := redisconn.Unchecked(*own, 2)
		if err != nil {
			return nil, err
		}
		opened.Add(conn.Close)
		timelines, o.LimitsRedis, prefix = conn.Client, conn.Client, own.Prefix
	}
	limiter, err := throttle.New(timelines, throttle.Options{Prefix: prefix, Horizon: cfg.Limits.Horizon})
	if err != nil {
		return nil, err
	}
	opened.Add(limiter.Close)
	o.Control = control.New(queue.Client, o.Records, limiter, o.Limits)
	o.Inspect = inspect.New(queue.Client, o.Records, limiter, o.Limits)
	opened.Add(func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restTime)
		defer cancel()
		o.Control.Rest(ctx)
		return nil
	})
	o.Preview = &operate.Previewer{Limits: o.Limits, Lines: limiter, Apps: o.Apps.Names()}
	return operate.New(o), nil
}

// restTime is how long a command waits until the lines from which it took notifications are
// placed again: a line is placed once a second.
const restTime = 3 * time.Second

// UserAtHost returns USER@HOST of the process.
func UserAtHost() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name[:min(len(name), push.MaxNameBytes)]
}
