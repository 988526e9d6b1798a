package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker"
)

// An operation is what an operator's command works with: the Redis that the
// workers use, spoken to directly.
type operation struct {
	cfg      *config.Config
	records  *push.Records
	producer *push.Producer
	limits   *throttle.Limits
	// overrides are above limits, which know them after a Refresh.
	overrides *throttle.Overrides
	limiter   *throttle.Redis
	control   *worker.Control
	closers
}

// operate adds --config and, for a command that reads, --json, and runs f with
// all that it needs.
func operate(cmd *cobra.Command, f func(ctx context.Context, o *operation, args []string, out io.Writer) error) *cobra.Command {
	file := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		o, err := openOperation(ctx, *file, cmd.Name() == moving)
		if err != nil {
			return err
		}
		defer func() { _ = o.close() }()
		return f(ctx, o, args, cmd.OutOrStdout())
	}
	return cmd
}

// moving is the command that moves users' slots, and needs their timelines.
const moving = "cancel"

func openOperation(ctx context.Context, configured string, moves bool) (*operation, error) {
	cfg, err := loadReachable(configured)
	if err != nil {
		return nil, err
	}
	redisconn.LogTo(slog.New(slog.DiscardHandler)) // the errors say it
	const connections = 8
	o := &operation{cfg: cfg, limits: throttle.NewLimits(cfg.Limits.Default, cfg.Limits.Categories)}
	queue, err := redisconn.Open(ctx, cfg.Redis, connections)
	if err != nil {
		return nil, err
	}
	o.add(queue.Close)
	o.overrides = throttle.NewOverrides(queue.Client, cfg.Redis.Prefix, cfg.Limits.Horizon)
	if moves {
		if _, err := o.overrides.Refresh(ctx, o.limits); err != nil {
			_ = o.close()
			return nil, err
		}
	}
	timelines, prefix := queue, cfg.Redis.Prefix
	// what only looks must not need the limits' Redis: that may be what is away
	if own := cfg.Limits.Redis; own != nil && moves {
		if timelines, err = redisconn.Open(ctx, *own, connections); err != nil {
			_ = o.close()
			return nil, err
		}
		o.add(timelines.Close)
		prefix = own.Prefix
	}
	o.limiter = throttle.NewRedis(timelines.Client, throttle.Options{Prefix: prefix, Horizon: cfg.Limits.Horizon})
	o.add(o.limiter.Close)
	o.records = push.NewRecords(queue.Client, cfg.Redis.Prefix, cfg.Worker.IDRetention)
	o.producer = push.NewProducer(queue.Client, cfg.Redis.Prefix, cfg.Worker.IDRetention)
	o.control = worker.NewControl(queue.Client, o.records, o.limiter, o.limits)
	return o, nil
}

// jsonFlag adds --json.
func jsonFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "print JSON")
}

func printJSON(out io.Writer, v any) error { return json.NewEncoder(out).Encode(v) }
