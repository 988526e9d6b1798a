package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/apiclient"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
)

func newCancel() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel ID | cancel --all [--category CATEGORY …] [--expect N]",
		Short: "End a notification that waits, or all that match, and give the slots to those behind",
		Long: `cancel ends the notification with that ID, if it waits, and its slot goes to
those behind it. With --all it ends everything that waits and matches every flag
that is given: it counts them first, and asks on the terminal, or goes ahead if
there are as many as --expect says. With an ID, --app and --user say whose it is,
where several users have it. One whose push is to tell of others it ends with --digest
alone, and always with --all. What moves on while they are counted may be
missed: pause first, and look with pushpace waiting, which takes the same flags.
Breaking off is safe: do it again for the rest.`,
		Example: `  pushpace cancel order-4711-shipped
  pushpace pause --category marketing && pushpace cancel --all --category marketing`,
		Args: someOrAll(1),
	}
	others := cmd.Flags().Bool("digest", false, "also one whose push is to tell of others, which nobody is told of then")
	all := cmd.Flags().Bool("all", false, "all that wait and match the other flags, instead of one")
	selection, confirmation, asJSON := selectionFlags(cmd), expectFlag(cmd), jsonFlag(cmd)
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, args []string, out io.Writer) error {
		rest := *selection
		rest.App, rest.User = "", ""
		switch {
		case *all && *others:
			return misusedf("--digest is for an ID: --all ends what carries others too")
		case *all && len(args) > 0:
			return misusedf("--all: an ID names one; give one or the other")
		case *all:
			return cancelAll(ctx, b, *selection, confirmation, out, *asJSON)
		case !rest.All() || cmd.Flags().Changed("expect"):
			return misusedf("--category, --collapse-key and --expect are for --all")
		}
		return cancelOne(ctx, b, push.Ref{ID: args[0], App: selection.App, User: selection.User}, *others, out, *asJSON)
	})
}

func cancelOne(ctx context.Context, b *apiclient.Client, ref push.Ref, others bool, out io.Writer, asJSON bool) error {
	id := ref.ID
	end := b.Cancel
	if others {
		end = b.CancelWithOthers
	}
	err := end(ctx, ref)
	if carries := new(push.CarriesError); errors.As(err, &carries) {
		return fmt.Errorf("%s: %w; --digest ends all", id, err)
	}
	if errors.Is(err, push.ErrUnderWay) {
		return fmt.Errorf("%s: %w; look again in a moment", id, err)
	}
	if err != nil {
		return ofID(id, err)
	}
	if !asJSON {
		fmt.Fprintln(os.Stderr, words.Quoted(id)+" is cancelled.")
		return nil
	}
	status, err := b.Status(ctx, ref)
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	return printJSON(out, status)
}
