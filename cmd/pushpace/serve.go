package main

import (
	"context"
	"errors"
	"log/slog"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/worker"
)

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the workers",
		Long: `serve takes notifications from the queue, sends what its user's limits allow and
puts off the rest, until SIGINT or SIGTERM. It then lets what is under way end,
puts the rest back, and is gone within worker.shutdown_timeout; what is left by
then, since Redis hangs, say, comes back by itself when its lease ends. A second
signal ends it at once.`,
		Args: cobra.NoArgs,
	}
	file := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, file, err := loadConfig(*file)
		if err != nil {
			return err
		}
		if len(cfg.Apps) == 0 {
			return misusedf("%s: apps: there is none to send for", file)
		}
		return serve(cmd.Context(), cfg)
	}
	return cmd
}

func serve(ctx context.Context, cfg *config.Config) error {
	log := newLogger(cfg.Log)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if cfg.Redis.Address.Mode == config.Embedded {
		log.Warn("the Redis is the embedded one: no other process reaches it, and it keeps nothing")
	}
	accepted := standin.NewLedger(func(standin.Entry) error { return nil })
	s, err := openSystem(ctx, cfg, accepted, log)
	if err != nil {
		if ctx.Err() != nil {
			return nil // told to stop while it starts
		}
		return err
	}
	w, err := s.start(cfg, log)
	if err != nil {
		return errors.Join(err, s.close())
	}
	log.Info("serving", "version", buildVersion().Version, "config", cfg)
	<-ctx.Done()
	stop()
	log.Info("stopping; a second signal ends it at once", "within", cfg.Worker.ShutdownTimeout)
	err = drain(cfg.Worker.ShutdownTimeout, func() error { w.Shutdown(); return s.close() })
	if errors.Is(err, errUnderWay) {
		log.Warn("stopped before everything was put back: leases bring it back to the queue within minutes")
		return nil
	}
	if err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

// start starts a worker, and what tells of it.
func (s *system) start(cfg *config.Config, log *slog.Logger) (*worker.Worker, error) {
	if err := s.serveMetrics(cfg.Telemetry, log); err != nil {
		return nil, err
	}
	w, err := s.newWorker(cfg, log)
	if err != nil {
		return nil, err
	}
	return w, w.Start()
}

// drainShare is what of the shutdown's time is left for putting back what has
// not ended, at most drainMost.
const (
	drainShare = 4
	drainMost  = 3 * time.Second
)

// sendTime is how long what is under way may take to end at a shutdown.
func sendTime(shutdown time.Duration) time.Duration {
	return shutdown - min(drainMost, shutdown/drainShare)
}

// errUnderWay means that something did not end in time.
var errUnderWay = errors.New("what is under way did not end in time; it comes back from the queue")

// drain runs what lets everything end. It answers errUnderWay when that takes
// longer than the time-out: asynq writes what has ended while Redis hangs one by
// one, each for as long as a command may take.
func drain(timeout time.Duration, end func() error) error {
	done := make(chan error, 1)
	go func() { done <- end() }()
	select {
	case err := <-done:
		return err
	case <-time.After(timeout):
		return errUnderWay
	}
}
