package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker"
)

// app is the app of all notifications.
const app = "bench"

// A system is pushpace inside this process, assembled as in its program.
type system struct {
	producer *push.Producer
	records  *store.Records
	worker   *worker.Worker
	closers  []func() error
}

// openSystem assembles the parts as internal/app/system.go does, with the configuration's defaults.
// A change of that file must be repeated here.
func openSystem(ctx context.Context, s stage, limited config.Limits, apns providers.Sender, observer worker.Observer) (*system, error) {
	var cfg config.Config
	cfg.SetDefaults()
	cfg.Redis.Address = config.Address{Mode: config.Single, Hosts: []string{s.Redis}}
	if s.Hosts != nil {
		cfg.Redis.Address = config.Address{Mode: config.Cluster, Hosts: s.Hosts}
	}
	cfg.Redis.DB, cfg.Redis.Prefix, cfg.Redis.Acknowledged, cfg.Redis.Shards = s.DB, s.Prefix, s.Acknowledged, s.Shards
	cfg.Limits.Default, cfg.Limits.Categories = limited.Default, limited.Categories
	cfg.Limits.TimeZone, cfg.Limits.QuietHoursSpread = limited.TimeZone, limited.QuietHoursSpread
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	redisconn.LogTo(log)
	pool := min(1024, cfg.Worker.Concurrency+32)

	sys := new(system)
	connect := func(redis config.Redis, pool int) (*redisconn.Conn, error) {
		conn, err := redisconn.Open(ctx, redis, pool)
		if err == nil {
			sys.closers = append(sys.closers, conn.Close)
		}
		return conn, err
	}
	producing, err := connect(cfg.Redis, enqueuers)
	if err != nil {
		return nil, err
	}
	queue, err := connect(cfg.Redis, pool)
	if err != nil {
		return nil, errors.Join(err, sys.close())
	}
	shared, stop := pipeline.Share(queue.Client, pipeline.Options{Timeout: cfg.Redis.Timeout})
	sys.closers = append(sys.closers, func() error { stop(); return nil })
	limiter, err := throttle.New(shared, throttle.Options{Prefix: cfg.Redis.Prefix, Horizon: cfg.Limits.Horizon})
	if err != nil {
		return nil, err
	}
	sys.closers = append(sys.closers, limiter.Close)
	producer, stop := pipeline.Share(producing.Client, pipeline.Options{Timeout: cfg.Redis.Timeout})
	sys.closers = append(sys.closers, func() error { stop(); return nil })

	sys.records = store.NewRecords(shared, cfg.Redis.Prefix, cfg.Worker.IDRetention).WithShards(s.Shards)
	sys.producer = push.NewProducer(producer, cfg.Redis.Prefix, cfg.Worker.IDRetention).WithShards(s.Shards)
	options := worker.Options{
		Queue:    shared,
		Limiter:  throttle.WithOutage(limiter, throttle.OnOutage(cfg.Limits.OnOutage), throttle.OutageOptions{Log: log}),
		Limits:   limits.New(cfg.Limits.General(), cfg.Limits.Policies()),
		Senders:  map[string]map[push.Platform]providers.Sender{app: {push.APNs: apns}},
		Observer: observer, Log: log,
		ClockOffset: limiter.ClockOffset,
		Concurrency: cfg.Worker.Concurrency, Attempts: cfg.Worker.Attempts, RetryTime: cfg.Worker.RetryTime,
		MaxBooked: cfg.Limits.MaxBooked, ShutdownTimeout: cfg.Worker.ShutdownTimeout,
		Prefix: cfg.Redis.Prefix, Shards: s.Shards, IDRetention: cfg.Worker.IDRetention,
	}
	if sys.worker, err = worker.New(options); err != nil {
		return nil, errors.Join(err, sys.close())
	}
	return sys, nil
}

// close closes the parts, the last opened first.
func (s *system) close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	return errors.Join(errs...)
}
