package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/pushpace/pushpace/internal/api"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/providers/standin"
)

// roles are the parts that a process runs.
type roles struct{ worker, api bool }

// rolesOf returns the role of --only; by default all roles that are configured.
func rolesOf(only string, cfg *config.Config) (roles, error) {
	listens := cfg.HTTP.Listen != ""
	switch only {
	case "":
		return roles{true, listens}, nil
	case "worker":
		return roles{worker: true}, nil
	case "api":
		return roles{api: listens}, nil
	}
	return roles{}, Misusedf("--only: want worker or api")
}

// gcPercent is GOGC of a worker, which has a small live heap: in the bench dispatch its memory grows
// from 62 to 64 MB, and its processor time falls by a seventh. With 200 it takes 74 MB and the
// same processor time. GOGC in the environment overrides it.
const gcPercent = 150

// TuneCollector sets the garbage collector's percentage, unless GOGC in the environment does.
func TuneCollector(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// Serve runs the configured roles until SIGINT or SIGTERM. flag names the configuration file, ""
// for the usual file; only names the only role of the process, "" for all configured roles.
func Serve(ctx context.Context, flag, only string) error {
	c, err := newConfigured(flag, only)
	if err != nil {
		return err
	}
	TuneCollector(gcPercent)
	cfg, r := c.started, c.roles
	log := NewLogger(cfg.Log, &c.level)
	hangups := make(chan os.Signal, 1) // from now on a hangup does not end the process
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if cfg.Redis.Address.Mode == config.Embedded {
		log.Warn("this process uses the embedded Redis: no other process reaches it, and its data is lost at the end")
	}
	apps := AppsOf(cfg)
	if !r.worker { // only a worker needs the apps' credentials
		without := *cfg
		without.Apps = nil
		cfg = &without
	}
	listeners, err := listen(cfg, r)
	defer listeners.close()
	if err != nil {
		return err
	}
	accepted := standin.NewLedger(func(standin.Entry) error { return nil })
	s, err := Open(ctx, cfg, accepted, log)
	if err != nil {
		if ctx.Err() != nil {
			return nil // a signal stops the start
		}
		return err
	}
	s.listeners = listeners
	s.apps, s.lastReload = apps, c.lastReload
	s.allQuotas = func() (operate.Quotas, error) { return s.quotas.List().WithUnnamed(c.last.Load().config), nil }
	if !r.worker {
		if s.quotas, err = operate.NewLiveQuotas(c.started); err != nil {
			log.Warn("this process can neither list nor override quotas", "error", err)
		}
	}
	stopping, err := s.start(ctx, cfg, r, log)
	if err != nil {
		if ctx.Err() != nil {
			return s.Close() // a signal stops the start
		}
		return errors.Join(redisconn.Explain(err, cfg.Redis), s.Close())
	}
	log.Debug("the configuration", "config", cfg)
	log.Info("serving", "version", BuildVersion().Version, "redis", cfg.Redis.Address.String(), "apps", strings.Join(apps.Names(), " "),
		"simulated", strings.Join(simulatedApps(cfg.Apps), " "))
	c.keep(ctx, hangups, s.live(c), log)
	stop()
	s.health.Draining()
	log.Info("stopping; a second signal ends the process at once", "within", cfg.Worker.ShutdownTimeout)
	err = drain(cfg.Worker.ShutdownTimeout, func() error { return errors.Join(stopping.Close(), s.Close()) })
	if errors.Is(err, errUnderWay) {
		log.Warn("stopped before all jobs were back on the queue: another worker, if one runs, returns the rest within seconds")
		return s.removeFolder() // s.Close has not come to it
	}
	if err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

// listeners are the process's open listeners; nil for an address that is not configured.
type listeners struct{ api, metrics net.Listener }

// listen opens the listeners before anything starts: an address that is in use then stops the
// start.
func listen(cfg *config.Config, r roles) (l listeners, err error) {
	if r.api {
		if l.api, err = api.Listen(cfg.HTTP); err != nil {
			return l, err
		}
	}
	if cfg.Telemetry.Listen != "" {
		if l.metrics, err = net.Listen("tcp", string(cfg.Telemetry.Listen)); err != nil {
			err = fmt.Errorf("telemetry.listen: %w", err)
		}
	}
	return l, err
}

// close closes the listeners without a server.
func (l listeners) close() {
	for _, one := range []net.Listener{l.api, l.metrics} {
		if one != nil {
			_ = one.Close()
		}
	}
}

// start starts the roles and the telemetry. It returns a function that ends them, the API before
// the worker.
func (s *System) start(ctx context.Context, cfg *config.Config, r roles, log *slog.Logger) (Closers, error) {
	var running Closers
	if err := s.observe(ctx, cfg, log); err != nil {
		return nil, err
	}
	if r.worker {
		w, err := s.NewWorker(cfg, log)
		if err == nil {
			err = w.Start(ctx)
		}
		if err != nil {
			return nil, err
		}
		s.worker.Store(w)
		running.Add(func() error { return w.Stop(context.Background()) }) // drain bounds it
	}
	if r.api && !r.worker { // a worker follows the overrides itself
		running.Add(s.followLimits())
	}
	if r.api {
		if err := s.serveAPI(cfg, log); err != nil {
			return nil, errors.Join(err, running.Close())
		}
		running.Add(func() error { return s.api.stop(putBackTime(cfg.Worker.ShutdownTimeout)) })
	}
	s.health.Started()
	return running, nil
}

// drainShare is the part of the shutdown's time for returning unfinished jobs, at most drainMost.
const (
	drainShare = 4
	drainMost  = 3 * time.Second
)

// putBackTime returns the time of the shutdown for returning jobs and for the API's requests.
func putBackTime(shutdown time.Duration) time.Duration { return min(drainMost, shutdown/drainShare) }

// sendTime returns the time of the shutdown for pushes in flight.
func sendTime(shutdown time.Duration) time.Duration { return shutdown - putBackTime(shutdown) }

// errUnderWay means that requests or pushes did not end in time.
var errUnderWay = errors.New("work in flight did not end in time; its jobs come back from the queue")

// drain calls end. It returns errUnderWay if end takes longer than the time-out: while Redis
// hangs, end takes as long as a command may.
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
