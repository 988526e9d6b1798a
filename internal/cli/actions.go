package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/api/apiclient"
	"github.com/pushpace/pushpace/internal/words"
)

func newActions() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "actions",
		Short: "List what operators did, the newest first",
		Long: `actions lists what operators did, by commands, the API and the console: changes of
limits, pauses and their ends, and what was cancelled, requeued and purged. WHO is the
token's name, or WHO of the command. COUNT is how many overrides, pauses, notifications
or dead letters it was about; many that are acted on together are one action, or one for
each hundred by a command. About 10,000 are kept, none for more than 30 days. What a
change of a limit was from and to, limits log lists.`,
		Args: cobra.NoArgs,
	}
	limit := cmd.Flags().Int("limit", 100, "list so `MANY` at most")
	asJSON := jsonFlag(cmd)
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, _ []string, out io.Writer) error {
		if *limit < 1 {
			return misusedf("--limit: want 1 or more")
		}
		all, err := b.Actions(ctx, *limit)
		if err != nil {
			return err
		}
		if *asJSON {
			return printEach(out, all)
		}
		if len(all) == 0 {
			return none("No action is kept.")
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "WHEN\tWHO\tACTION\tWHAT\tCOUNT")
		for _, e := range all {
			did, what := words.Action(e)
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\n", words.Stamp(e.At), words.Quoted(e.By), did, orAny(what.String()), e.Count)
		}
		return w.Flush()
	})
}
