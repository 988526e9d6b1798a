package cli

import (
	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/app"
)

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the workers, and the HTTP API at http.listen",
		Long: `serve runs until SIGINT or SIGTERM. It takes notifications from the queue, sends them as
their users' limits allow, and schedules the rest. With http.listen it also answers the HTTP
API; --only runs one of the two. At the signal the API accepts nothing new and finishes its
requests; pushes in flight finish, other jobs return to the queue, and serve exits within
worker.shutdown_timeout. If Redis hangs, jobs that are left return when another worker
declares this one dead. A second signal exits at once.

The configuration is reloaded at SIGHUP and when its file changes. An invalid one is
refused, and the old one stays. Limits, the numbers of quotas, the log's level and the
API's tokens take effect at once; the log names the changed keys that need a restart.`,
		Args: cobra.NoArgs,
	}
	file := configFlag(cmd)
	only := cmd.Flags().String("only", "", "run one `ROLE` alone: worker or api")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return app.Serve(cmd.Context(), *file, *only)
	}
	return cmd
}
