package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/metrics"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/tracing"
	"github.com/pushpace/pushpace/worker"
)

// observe has what the process does counted, traced and told where the
// configuration says, if it does.
func (s *system) observe(ctx context.Context, cfg *config.Config, log *slog.Logger) (err error) {
	if s.traces, err = startTracing(ctx, cfg.Telemetry.Tracing, log); err != nil {
		return err
	}
	s.add(s.traces.Close)
	if cfg.Telemetry.Listen == "" {
		return nil
	}
	s.config = cfg
	s.metrics = metrics.New(metrics.Sources{
		ClockOffset: s.clockOffset, Outages: s.limiter.Stats, Senders: s.senders, Worker: s.worker.Load, Backlog: s.readBacklog,
		Redis: s.troubles(), Reload: s.lastReload,
	})
	s.metrics.SetCategories(slices.Collect(maps.Keys(cfg.Limits.Categories)))
	s.add(s.metrics.Close)
	server, err := s.metrics.Serve(string(cfg.Telemetry.Listen), s.health)
	if err != nil {
		return fmt.Errorf("telemetry.listen: %w", err)
	}
	s.add(server.Close)
	s.observer = s.metrics
	log.Info("metrics", "url", "http://"+server.Addr()+"/metrics")
	return nil
}

// troubles are those of each Redis, by its key of the configuration.
func (s *system) troubles() map[string]func() redisconn.Status {
	all := map[string]func() redisconn.Status{metrics.QueueRedis: s.watch.Status}
	if s.limitsWatch != nil {
		all["limits.redis"] = s.limitsWatch.Status
	}
	return all
}

// readBacklog reads what Redis holds.
func (s *system) readBacklog(ctx context.Context) (b metrics.Backlog, err error) {
	if b.Counts, err = s.records.Counts(ctx); err != nil {
		return b, err
	}
	if b.Jobs, err = worker.ReadJobs(ctx, s.queue); err != nil {
		return b, err
	}
	b.Webhooks = make(map[string]map[worker.WebhookKind]time.Time)
	for name, app := range s.config.Apps {
		b.Webhooks[name] = make(map[worker.WebhookKind]time.Time)
		for kind, hook := range map[worker.WebhookKind]*config.Webhook{worker.DeadTokenHook: deadTokenHook(app), worker.OutcomeHook: outcomeHook(app)} {
			if hook == nil {
				continue
			}
			if b.Webhooks[name][kind], err = worker.WebhookOldest(ctx, s.queue, s.config.Redis.Prefix, kind, name); err != nil {
				return b, err
			}
		}
	}
	snapshots, err := worker.ReadSnapshots(ctx, s.queue, s.records.Prefix())
	if err != nil {
		return b, err
	}
	b.Workers = len(snapshots)
	b.Waits, err = s.waits.read(ctx, worker.NewControl(s.queue, s.records, s.limiter, s.limits))
	return b, err
}

const (
	// waitsFresh is how long what notifications wait for is told again, and
	// waitsSample how many jobs of each queue are looked into for it: each process
	// that tells metrics does so.
	waitsFresh  = 30 * time.Second
	waitsSample = 50
)

// drawn is what notifications waited for when it was last looked at. It is read
// by one at a time.
type drawn struct {
	shares []worker.Share
	at     time.Time
}

func (d *drawn) read(ctx context.Context, c *worker.Control) ([]worker.Share, error) {
	if time.Since(d.at) < waitsFresh {
		return d.shares, nil
	}
	shares, err := c.Waits(ctx, waitsSample)
	if err == nil {
		d.shares, d.at = shares, time.Now()
	}
	return shares, err
}

// startTracing begins to trace, if the configuration says where to; otherwise
// it answers nil.
func startTracing(ctx context.Context, t config.Tracing, log *slog.Logger) (*tracing.Tracing, error) {
	if t.Endpoint == "" {
		return nil, nil
	}
	traces, err := tracing.Start(ctx, tracing.Options{
		Endpoint: string(t.Endpoint), Ratio: float64(t.Ratio), Version: buildVersion().Version,
		OnChange: func(err error) {
			if err != nil {
				log.Warn("traces get lost: the collector does not take them", "error", err)
				return
			}
			log.Info("the collector takes traces again")
		},
	})
	if err != nil {
		return nil, fmt.Errorf("telemetry.tracing: %w", err)
	}
	return traces, nil
}
