//go:build unix

package loadtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pushpace/pushpace/internal/app"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/redisconn/scratch"
	"github.com/pushpace/pushpace/internal/redisserver"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// command names the command in errors and in Redis.
const command = "bench"

// answerTime is how long the stand-ins take to answer.
const answerTime = 20 * time.Millisecond

// Run runs the load test and shows its progress. ctx, SIGINT or SIGTERM ends it early. It leaves no
// process, file or key behind.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	if o.Users < least || o.Notifications != 0 && o.Notifications < least {
		return nil, app.Misusedf("want at least %d users and notifications", least)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	r := &run{log: newLog(newPlan(o.Users, o.Notifications))}
	r.show = newShow(r.notifications)
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.open(ctx, o); err != nil {
		return nil, explain(interrupted(ctx, err))
	}
	report, err = r.work(ctx)
	return report, explain(interrupted(ctx, err))
}

// interrupted returns err, or the error "interrupted" instead if a signal ended the run.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return err
}

// explain adds a remedy to an error of the machine.
func explain(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("the disk of %s is full: make room there, or set TMPDIR to another folder: %w", os.TempDir(), err)
	}
	return err
}

// A run is one run of the command.
type run struct {
	*log
	app.Closers
	show *show

	folder   string // of everything that is written
	settings []string
	config   *config.Config
	system   *app.System
	producer *push.Producer
	workers  workers
}

// open starts everything but the worker.
func (r *run) open(ctx context.Context, o Options) (err error) {
	if r.folder, err = os.MkdirTemp("", "pushpace-bench-"); err != nil {
		return err
	}
	r.Add(func() error { return os.RemoveAll(r.folder) })
	address, environ := o.Redis, os.Environ()
	if address == "" {
		if address, err = r.startRedis(); err != nil {
			return err
		}
		environ = nil // its settings are for a Redis of the user
	}
	if r.settings, err = scratch.Settings(command, address, environ); err != nil {
		return app.Misused(err)
	}
	ledger := standin.NewLedger(r.arrive)
	standIns, err := app.StartStandIns(r.folder, func(*app.Platform) app.StandInOptions {
		return app.StandInOptions{Latency: standin.Latency{Typical: answerTime}, Ledger: ledger}
	})
	if err != nil {
		return err
	}
	r.Add(standIns.Close)
	r.settings = append(r.settings, standIns.Settings(appName)...)
	redisconn.LogTo(slog.New(slog.DiscardHandler)) // the returned errors name the cause
	if err := r.configure(ctx, o.Redis != ""); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	if r.system, err = app.Open(ctx, r.config, ledger, log); err != nil {
		return redisconn.Explain(err, r.config.Redis)
	}
	r.Add(r.system.Close)
	r.producer = push.NewProducer(r.system.Queue, r.config.Redis.Prefix, r.config.Worker.IDRetention).WithShards(r.config.Redis.Shards)
	return nil
}

// startRedis starts a Redis without persistence, and returns its address.
func (r *run) startRedis() (address string, err error) {
	if _, err := exec.LookPath(redisserver.Program()); err != nil {
		return "", fmt.Errorf("there is no %s on the PATH: install it, or name an empty Redis by --redis HOST:PORT", redisserver.Program())
	}
	server, err := redisserver.Start(redisserver.Options{Dir: r.folder, Args: []string{"--appendonly", "no"}})
	if err != nil {
		return "", fmt.Errorf("the bench's Redis does not start: read its log, or name an empty Redis by --redis HOST:PORT: %w", err)
	}
	r.Add(func() error { server.Stop(); return nil })
	return server.Addr(), nil
}

// configure writes the configuration of the worker and this process. On a shared Redis it claims a
// database.
func (r *run) configure(ctx context.Context, shared bool) (err error) {
	file := filepath.Join(r.folder, "config.yaml")
	text := fmt.Appendf(nil, "limits: {default: {min_gap: %s, rates: [%s]}}\nlog: {level: warn}\n", limits.MinGap, limits.Rates[0])
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	if r.config, err = config.Parse(file, text, r.settings); err != nil {
		return app.Misused(err)
	}
	if shared {
		database, err := scratch.Claim(ctx, command, &r.config.Redis)
		if err != nil {
			return redisconn.Explain(err, r.config.Redis)
		}
		r.Add(database.Clean)
		r.settings = append(r.settings, "PUSHPACE_REDIS__DB="+strconv.Itoa(r.config.Redis.DB))
	}
	var environ []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "PUSHPACE_") {
			environ = append(environ, entry)
		}
	}
	r.workers = workers{args: []string{"serve", "--config", file}, environ: append(environ, r.settings...), log: filepath.Join(r.folder, "worker.log")}
	r.Add(func() error { r.workers.kill(); return nil })
	return nil
}
