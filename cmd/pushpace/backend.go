package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/apiclient"
	"github.com/pushpace/pushpace/internal/overview"
	"github.com/pushpace/pushpace/internal/preview"
	"github.com/pushpace/pushpace/internal/quotas"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// A backend does what the commands ask for. There are two: the Redis of the
// workers, and the HTTP API in front of it. Both answer the same errors.
type backend interface {
	// Enqueue hands notifications over, each on its own, those of one user in
	// order, and answers what became of each.
	Enqueue(ctx context.Context, notifications []*push.Notification) []apiclient.Result

	Status(ctx context.Context, id string) (*control.Status, error)
	Cancel(ctx context.Context, id string) error
	// CancelEach answers what became of each.
	CancelEach(ctx context.Context, ids []string) []error
	// Queued tells of what waits, in no order, perhaps of one twice.
	Queued(ctx context.Context, s control.Selection, f func(control.Queued) bool) error
	// Timeline takes the one app there is for "", and all categories for none.
	Timeline(ctx context.Context, app, user string, categories []string) (*control.Timeline, error)

	// InForce answers the general policy at the level and the category's own.
	InForce(ctx context.Context, at limits.Level) (general, own limits.EffectivePolicy, err error)
	// Horizon is how long a gap or a period may be.
	Horizon(ctx context.Context) (time.Duration, error)
	// SetOverride answers the override that stands, with who set it and when, and
	// what is odd about it.
	SetOverride(ctx context.Context, o limits.Override) (limits.Override, []string, error)
	// Quotas are what all workers together may do.
	Quotas(ctx context.Context) ([]quotas.Status, error)
	// Categories are those that the configuration has.
	Categories(ctx context.Context) ([]string, error)
	// Preview returns what the override would do, or for nil the removal of the one there;
	// nil if there is none.
	Preview(ctx context.Context, at limits.Level, o *limits.Override) (*preview.Preview, error)
	UnsetOverride(ctx context.Context, at limits.Level, by string) (bool, error)
	Overrides(ctx context.Context, f func(limits.Override) bool) error
	Import(ctx context.Context, all []limits.Override) error
	LimitsLog(ctx context.Context, newest int) ([]limits.Change, error)

	Letters(ctx context.Context, f func(*push.Letter) bool) error
	Letter(ctx context.Context, id string) (*push.Letter, error)
	Requeue(ctx context.Context, id string) error
	RequeueEach(ctx context.Context, ids []string) []error
	Purge(ctx context.Context, id string) error

	// Resume answers what it has ended.
	Pause(ctx context.Context, h pause.Pause) error
	Resume(ctx context.Context, h pause.Pause) ([]pause.Pause, error)
	Pauses(ctx context.Context) ([]pause.Pause, error)

	Audit(ctx context.Context) (*control.Audit, error)
	Overview(ctx context.Context) (*overview.Overview, error)
	// Workers are those that are alive.
	Workers(ctx context.Context) ([]control.Snapshot, error)

	Close() error
}

// operate runs f on the backend that the command's flags and the environment name.
func operate(cmd *cobra.Command, f func(ctx context.Context, b backend, args []string, out io.Writer) error) *cobra.Command {
	where := placeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		b, err := where.open(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = b.Close() }()
		err = f(ctx, b, args, cmd.OutOrStdout())
		if p := new(apiclient.Problem); errors.As(err, &p) && p.Status == http.StatusBadRequest {
			return misused(err)
		}
		return err
	}
	return cmd
}

// jsonFlag adds --json.
func jsonFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "print JSON")
}

func printJSON(out io.Writer, v any) error { return json.NewEncoder(out).Encode(v) }
