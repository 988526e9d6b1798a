package app

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/telemetry/metrics"
	"github.com/pushpace/pushpace/internal/telemetry/tracing"
)

// observe starts the configured metrics and traces.
func (s *System) observe(ctx context.Context, cfg *config.Config, log *slog.Logger) (err error) {
	if s.traces, err = startTracing(ctx, cfg.Telemetry.Tracing, log); err != nil {
		return err
	}
	s.Add(s.traces.Close)
	if cfg.Telemetry.Listen == "" {
		return nil
	}
	s.config = cfg
	s.metrics = metrics.New(metrics.Sources{
		ClockOffset: s.clockOffset, Outages: s.limiter.Stats, Senders: s.Senders, Worker: s.worker.Load, Backlog: s.readBacklog,
		Redis: s.troubles(), Reload: s.lastReload,
	})
	s.metrics.SetCategories(slices.Collect(maps.Keys(cfg.Limits.Categories)))
	s.Add(s.metrics.Close)
	server := s.metrics.Serve(s.listeners.metrics, s.health)
	s.Add(server.Close)
	s.Observer = s.metrics
	log.Info("metrics", "url", "http://"+server.Addr()+"/metrics")
	return nil
}

// troubles returns functions with the status of each Redis, by configuration key.
func (s *System) troubles() map[string]func() redisconn.Status {
	all := map[string]func() redisconn.Status{metrics.QueueRedis: s.watch.Status}
	if s.limitsWatch != nil {
		all["limits.redis"] = s.limitsWatch.Status
	}
	return all
}

// startTracing begins to trace if the configuration has an endpoint; otherwise
// it returns nil.
func startTracing(ctx context.Context, t config.Tracing, log *slog.Logger) (*tracing.Tracing, error) {
	if t.Endpoint == "" {
		return nil, nil
	}
	traces, err := tracing.Start(ctx, tracing.Options{
		Endpoint: string(t.Endpoint), Ratio: t.Ratio, Version: BuildVersion().Version,
		OnChange: func(err error) {
			if err != nil {
				log.Warn("traces are lost: the collector refuses them", "error", err)
				return
			}
			log.Info("the collector accepts traces again")
		},
	})
	if err != nil {
		return nil, fmt.Errorf("telemetry.tracing: %w", err)
	}
	return traces, nil
}
