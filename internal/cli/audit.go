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
		Short: "Compare the accepted notifications with the ended and the waiting ones",
		Long: `audit compares the number of accepted notifications with the ended and the waiting ones,
and the waiting ones with the jobs on the queue. The difference is 0 while nothing is
sent, and otherwise at most the number of pushes in flight. If it is larger, the exit
status is 3. While a shard of a Cluster does not answer, the exit status is 1, and the
numbers leave out this shard.`,
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
				warnNoWorker(ctx, b)
			}
		}
		switch balance := audit.Balance(); {
		case err != nil:
			return err
		case balance == inspect.Incomplete:
			return errors.New("the sums are not complete: " + store.UnreachableText(audit.Unread))
		case balance == inspect.Unbalanced:
			return exitSilently(exitViolated)
		}
		return nil
	})
}
