package main

import (
	"fmt"
	"log/slog"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/metrics"
)

// serveMetrics has what the worker does counted, and told where the
// configuration says, if it does.
func (s *system) serveMetrics(t config.Telemetry, log *slog.Logger) error {
	if t.Listen == "" {
		return nil
	}
	m := metrics.New(metrics.Sources{ClockOffset: s.clockOffset, Outages: s.limiter.Stats, Senders: s.senders})
	server, err := m.Serve(string(t.Listen))
	if err != nil {
		return fmt.Errorf("telemetry.listen: %w", err)
	}
	s.add(server.Close)
	s.observer = m
	log.Info("metrics", "url", "http://"+server.Addr()+"/metrics")
	return nil
}
