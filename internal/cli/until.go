package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/operate"
)

// endFlags adds --until and --for: when something ends.
func endFlags(cmd *cobra.Command, until, length *string) {
	cmd.Flags().StringVar(until, "until", "", "when it ends, an `INSTANT` as in 2026-12-24T20:00:00Z")
	cmd.Flags().StringVar(length, "for", "", "after what `DURATION` it ends, such as 2h")
}

// untilFlags adds --until and --for, and returns what reads them: the zero
// instant when neither is given.
func untilFlags(cmd *cobra.Command) func() (time.Time, error) {
	var until, length string
	endFlags(cmd, &until, &length)
	return func() (time.Time, error) {
		end, wrong := operate.Ending(length, until, time.Now())
		return end, wrong.Err()
	}
}
