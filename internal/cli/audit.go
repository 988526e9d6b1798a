package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/api/apiclient"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/store"
)

func newAudit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Compare what was accepted with what became of it",
		Long: `audit compares the notifications that were accepted with those that have ended
and those that wait, and the latter with the jobs on the queue. The difference
is 0 while nothing is sent, and at most as many as are being sent otherwise. Exit
status 3 when it is more. On a Cluster it cannot tell while a shard does not answer:
exit status 1, and the numbers are those of the shards that do.`,
		Args: cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, _ []string, out io.Writer) error {
		audit, err := b.Audit(ctx)
		if err != nil {
			return err
		}
		if *asJSON {
			err = printJSON(out, audit)
		} else {
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
			row := func(name string, n int64) { fmt.Fprintf(w, "%s\t%d\t\n", name, n) }
			row("accepted", audit.Accepted)
			for _, state := range store.EndStates {
				row(string(state), audit.Ended[state])
			}
			row("waiting", audit.Waiting)
			row("jobs queued", audit.Queued)
			row("of which in flight", audit.InFlight)
			row("difference", audit.Difference)
			row("malformed", audit.Malformed)
			err = w.Flush()
			if audit.Waiting > 0 {
				tellNoWorker(ctx, b)
			}
		}
		switch balance := audit.Balance(); {
		case err != nil:
			return err
		case balance == inspect.Untold:
			return errors.New("cannot tell: " + store.Silent(audit.Unread))
		case balance == inspect.Unbalanced:
			return told(exitViolated)
		}
		return nil
	})
}
