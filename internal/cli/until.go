package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/operate"
)

// endFlags adds --until and --for.
func endFlags(cmd *cobra.Command, until, length *string) {
	cmd.Flags().StringVar(until, "until", "", "when it ends, an `INSTANT` as in 2026-12-24T20:00:00Z")
	cmd.Flags().StringVar(length, "for", "", "end after this `DURATION`, such as 2h")
}

// untilFlags adds --until and --for. The result reads them: the zero time if neither is given.
func untilFlags(cmd *cobra.Command) func() (time.Time, error) {
	var until, length string
	endFlags(cmd, &until, &length)
	return func() (time.Time, error) {
		end, wrong := operate.Ending(length, until, time.Now())
		return end, wrong.Err()
	}
}
