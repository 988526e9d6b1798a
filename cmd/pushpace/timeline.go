package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pushpace/pushpace/internal/apiclient"
	"github.com/pushpace/pushpace/internal/timeline"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/worker/control"
)

func newTimeline() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "timeline USER",
		Short: "Draw what a user was sent and what waits, each limit's window, and why the next one waits",
		Long: `timeline draws what was sent to a user and what is booked on an axis around now.
Its first line says which notification is next, until when it waits and for
which limit. Below are the limits, the general ones and those of each category:
how many are used of how many, and when the next is free. Then those who wait.

The axis is even near now and logarithmic far from it. A digit stands for so
many notifications, # for more than nine; [--- is a limit's window, and ...>
goes from now to when a limit that is used up is free again.`,
		Example: `  pushpace timeline ada
  pushpace timeline ada --app shop --category marketing --json`,
		Args: cobra.ExactArgs(1),
	}
	app := cmd.Flags().String("app", "", "the `NAME` of the app; by default the only one there is")
	categories := cmd.Flags().StringArray("category", nil, "the `NAME` of a category whose limits are drawn besides the general ones; repeatable, all by default")
	width := cmd.Flags().Int("width", 0, "the width in columns, 40 to 160; by default the terminal's, or 80")
	asJSON := jsonFlag(cmd)
	completeApps(cmd)
	completeCategories(cmd)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if w := *width; w != 0 && (w < 40 || w > 160) {
			return misusedf("--width: want 40 to 160")
		}
		return nil
	}
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
		if unknown(t) {
			fmt.Fprintf(os.Stderr, "Nothing is known of %s in %s: is the user spelt right?\n", words.Quoted(t.User), words.Quoted(t.App))
		}
		style := timeline.Style{Width: *width, Terminal: decorated(os.Stdout)}
		if columns, _, err := term.GetSize(int(os.Stdout.Fd())); *width == 0 && err == nil {
			style.Width = columns
		}
		_, err = fmt.Fprint(out, timeline.Draw(t, style))
		return err
	})
}

// unknown reports whether nothing was sent to the user under the limits, as far
// as they look back, and nothing waits for them.
func unknown(t *control.Timeline) bool {
	return len(t.Bookings) == 0 && !slices.ContainsFunc(t.Scopes, func(s control.TimelineScope) bool { return len(s.Admissions) > 0 })
}
