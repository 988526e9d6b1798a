package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/api/apiclient"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/throttle/limits"
)

func newLimitsMute() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mute",
		Short: "Send nothing to a user, of a category or of an app, or of these together",
		Long: `mute stops the notifications to a user, of a category, of an app, or of these
together. From a second later on no worker sends one. New ones end muted at once; the
waiting ones end in the background, a worker takes about a minute for 50,000. Limits do
not change, and a mute at any level is enough. Critical notifications and
exempt categories pass unless --all is given. A mute ends by --until or --for, if at
all, or by unmute.

With --dry-run nothing is muted: it says how many waiting notifications would end. For
more than one user it counts them first, and asks on the terminal, or goes ahead if there
are at most as many as --expect says.`,
		Example: `  pushpace limits mute --user ada
  pushpace limits mute --user ada --category marketing --for 30d
  pushpace limits mute --category marketing --dry-run`,
		Args: cobra.NoArgs,
	}
	level, draft := levelFlags(cmd), draftFlags(cmd)
	cmd.Flags().BoolVar(&draft.All, "all", false, "also mute critical notifications and exempt categories")
	dry := cmd.Flags().Bool("dry-run", false, "print how many waiting notifications would end, and change nothing")
	confirmation, asJSON := expectFlag(cmd), jsonFlag(cmd)
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, _ []string, out io.Writer) error {
		level.Mute = true
		if err := level.check(); err != nil {
			return err
		}
		mute, err := draft.Read(level.Level, time.Now())
		if err != nil {
			return err
		}
		waiting := inspect.Selection{App: level.App, User: level.User, Category: level.Category, Mutable: !mute.All}
		n := 0
		if asks := level.User == "" || cmd.Flags().Changed("expect"); *dry || asks {
			if err := eachQueued(ctx, b, waiting, func(inspect.Queued) bool { n++; return true }); err != nil {
				return err
			}
			if *dry {
				return previewMute(mute, n, out, *asJSON)
			}
			if err := confirmation.confirm(n, words.Counted(n, "waits", "wait")+selected(waiting), "end"); err != nil {
				return err
			}
		}
		set, err := b.SetOverride(ctx, mute)
		if err != nil {
			return err
		}
		for _, w := range set.Warnings {
			warnUser(w)
		}
		if !*asJSON {
			fmt.Fprintf(os.Stderr, "For %s: %s.\n", level, words.Override(&set.Override))
			return nil
		}
		return printJSON(out, set)
	})
}

// previewMute prints how many waiting notifications a mute would end.
func previewMute(mute limits.Override, n int, out io.Writer, asJSON bool) error {
	if asJSON {
		return printJSON(out, struct {
			limits.Level
			All      bool `json:"all,omitempty"`
			WouldEnd int  `json:"would_end"`
		}{mute.Level, mute.All, n})
	}
	fmt.Fprintf(out, "%s of those that wait would end.\n", words.Grouped(n))
	fmt.Fprintln(os.Stderr, "Nothing was changed.")
	return nil
}

func newLimitsUnmute() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "unmute",
		Short: "End a mute of exactly this level; limits list shows them all",
		Args:  cobra.NoArgs,
	}
	level, asJSON := levelFlags(cmd), jsonFlag(cmd)
	byFlag(cmd)
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, _ []string, out io.Writer) error {
		level.Mute = true
		if err := level.check(); err != nil {
			return err
		}
		there, err := b.UnsetOverride(ctx, level.Level)
		if err == nil && !there {
			return fmt.Errorf("there is no mute of %s", level)
		}
		if err != nil {
			return err
		}
		if !*asJSON {
			fmt.Fprintf(os.Stderr, "The mute of %s is gone.\n", level)
			return nil
		}
		return printJSON(out, level.Level)
	})
}
