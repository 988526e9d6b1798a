package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/loadtest"
)

func newBench() *cobra.Command {
	var o loadtest.Options
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure deliveries with a million users, and judge that no limit is broken",
		Long: `bench starts a Redis, stand-ins for APNs and FCM, and a worker. It sends each user's
notifications through two limits, a gap of 5s and the rate 2/15s, which put off a
fifth of them. When half have arrived it kills the worker and starts another one.
Most leave flat out, for the rate, and the last at half of it, for the lateness.

It then judges all that the stand-ins received: how many notifications broke a
limit, were lost, or came twice. A kill may repeat what the worker was sending. The
exit status is 3 if a limit was broken or a notification was lost.

A million users take minutes on two idle cores, half an hour on busy ones, and 2 GiB.
bench needs redis-server on the PATH. With --redis it works on that Redis, in an empty database that it
leaves empty; the credentials and TLS settings of the environment
(PUSHPACE_REDIS__PASSWORD and others) apply.`,
		Args: cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		report, err := loadtest.Run(cmd.Context(), o)
		if err != nil {
			return err
		}
		print := report.Print
		if *asJSON {
			print = func(w io.Writer) error { return printJSON(w, report) }
		}
		if err := print(cmd.OutOrStdout()); err != nil {
			return err
		}
		if err := report.Err(); err != nil {
			return &exitError{exitViolated, err}
		}
		return nil
	}
	cmd.Flags().IntVar(&o.Users, "users", 1_000_000, "`NUMBER` of users")
	cmd.Flags().IntVar(&o.Notifications, "notifications", 0, "`NUMBER` of notifications; by default five to each four users, and more wait for the limits")
	cmd.Flags().StringVar(&o.Redis, "redis", "", "`HOST:PORT` of a Redis in the place of one that bench starts")
	return cmd
}
