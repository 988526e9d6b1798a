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
		Short: "List the audit log, the newest entries first",
		Long: `actions lists the operators' actions through commands, the API and the console: changes of
limits, pauses and their ends, cancelled, requeued and purged notifications, confirmed
losses of data. WHO is the token's name, or --by of the command. COUNT is the number of overrides, pauses,
notifications or dead letters. An action on many is one entry; a command writes one for
each 1,000. About 10,000 entries are kept for at most 30 days. limits log lists the old
and the new value of each limit.`,
		Args: cobra.NoArgs,
	}
	limit := cmd.Flags().Int("limit", 100, "list at most `N` actions")
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
