package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/api/apiclient"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/internal/words/timeline"
)

func newTimeline() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "timeline USER",
		Short: "Show a user's sent and waiting notifications, limits, and why the next one waits",
		Long: `The first line of timeline names the next notification, its time and its limit. Then come
the limits, general and of each category, with their use and the next free time; the newest
sent notifications; and the waiting ones.`,
		Example: `  pushpace timeline ada
  pushpace timeline ada --app shop --category marketing --json`,
		Args: cobra.ExactArgs(1),
	}
	app := cmd.Flags().String("app", "", "the `NAME` of the app; by default the only one there is")
	categories := cmd.Flags().StringArray("category", nil, "the `NAME` of a category whose limits are shown besides the general ones; repeatable, all by default")
	asJSON := jsonFlag(cmd)
	completeApps(cmd)
	completeCategories(cmd)
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, args []string, out io.Writer) error {
		t, err := b.Timeline(ctx, *app, args[0], *categories)
		if err != nil {
			return err
		}
		if err := warnOfCategory(ctx, b, *categories...); err != nil {
			return err
		}
		if *asJSON {
			return printJSON(out, t)
		}
		if len(t.Bookings)+len(timeline.Sent(t)) == 0 {
			fmt.Fprintf(os.Stderr, "Nothing is known of %s in %s: is the user spelt right?\n", words.Quoted(t.User), words.Quoted(t.App))
		}
		return timeline.Print(out, t)
	})
}
