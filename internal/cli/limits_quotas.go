package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/api/apiclient"
	"github.com/pushpace/pushpace/internal/words"
)

func newLimitsQuotas() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quotas",
		Short: "List the limits of all workers together: quotas of providers and throughputs of categories",
		Long: `quotas lists each limit that all workers share, as it is in force: quotas of providers and
throughputs of categories. FREE is the number of units that are free now, of the number
when none is used: a bucket's burst or a window's count.`,
		Args: cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, _ []string, out io.Writer) error {
		all, err := b.Quotas(ctx)
		if err != nil {
			return err
		}
		if *asJSON {
			return printEach(out, all)
		}
		if len(all) == 0 {
			return none("The configuration has no quota and no throughput.")
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "QUOTA\tAPPS\tLIMIT\tFREE\tFROM")
		for _, q := range all {
			from := q.Source.Words()
			if q.By != "" {
				from = strings.TrimSpace("the override by " + words.Quoted(q.By) + " " + words.End(q.Until).String())
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d of %d\t%s\n", words.Quoted(q.Quota), strings.Join(q.Apps, " "), q.Limit, q.Free, q.AtOnce, from)
		}
		return w.Flush()
	})
}
