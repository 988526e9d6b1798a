package cli

import (
	"time"

	"github.com/spf13/cobra"
)

// untilFlags adds --until and --for, and returns what reads them: the zero
// instant when neither is given.
func untilFlags(cmd *cobra.Command) func() (time.Time, error) {
	until := cmd.Flags().String("until", "", "when it ends, an `INSTANT` as in 2026-12-24T20:00:00Z")
	var length time.Duration
	durationVar(cmd.Flags(), &length, "for", "after what `DURATION` it ends, such as 2h")
	return func() (time.Time, error) {
		switch {
		case *until != "" && cmd.Flags().Changed("for"):
			return time.Time{}, misusedf("--for and --until both say when it ends: give one")
		case *until != "":
			at, err := time.Parse(time.RFC3339, *until)
			if err != nil {
				return time.Time{}, misusedf("--until: want an instant as in 2026-12-24T20:00:00Z")
			}
			return at, nil
		case length < 0, length == 0 && cmd.Flags().Changed("for"):
			return time.Time{}, misusedf("--for: want a positive duration such as 2h")
		case length > 0:
			return time.Now().Add(length), nil
		}
		return time.Time{}, nil
	}
}
