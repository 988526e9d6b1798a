package cli

import (
	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/app"
)

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the workers, and the HTTP API where http.listen says",
		Long: `serve takes notifications from the queue, sends what its user's limits allow and
has the rest wait, until SIGINT or SIGTERM. With http.listen it answers the HTTP
API too; --only has one process do one of the two. At the signal the API accepts
nothing more and lets its requests end; then what is being sent ends, the rest is
put back, and serve is gone within worker.shutdown_timeout. What is left by then,
since Redis hangs, say, comes back when another worker takes this one for
dead. A second signal ends it at once.

The configuration is loaded again at SIGHUP and when its file changes. A bad one
is refused, and the old one stays. Limits, the numbers of quotas, the log's level
and the API's tokens take effect at once; which other keys need a restart is said in
the log.`,
		Args: cobra.NoArgs,
	}
	file := configFlag(cmd)
	only := cmd.Flags().String("only", "", "run one `ROLE` alone: worker or api")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return app.Serve(cmd.Context(), *file, *only)
	}
	return cmd
}
