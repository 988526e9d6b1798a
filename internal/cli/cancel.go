package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/api/apiclient"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
)

func newCancel() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel ID | cancel --app APP --user USER --thread THREAD | cancel --all [--category CATEGORY …] [--expect N]",
		Short: "End a waiting notification, or all that match, and release their slots",
		Long: `cancel ends the waiting notification with this ID. The notifications behind it move up.
Without an ID, with --app, --user and one of --thread, --collapse-key, --category and
--digest-key, it ends the user's waiting notifications of that group and of their
digests: the user has read them elsewhere. With --all it ends every waiting notification
that matches all given flags. It counts them first and asks on the terminal, or continues
if there are at most --expect. With an ID, --app and --user choose the notification if several
users have this ID. A digest's carrier needs --digest with the number of its others, which
end with it; --all includes carriers. Notifications that move during the count may be
missed: pause first, and check with pushpace waiting, which takes the same flags. The
command may be interrupted and repeated.`,
		Example: `  pushpace cancel order-4711-shipped
  pushpace cancel --app shop --user ada --thread chat-17
  pushpace pause --category marketing && pushpace cancel --all --category marketing`,
		Args: cobra.MaximumNArgs(1),
	}
	others := cmd.Flags().Int("digest", 0, "also end a notification whose push is a digest of at most `N` others, with those others")
	all := cmd.Flags().Bool("all", false, "all that wait and match the other flags, instead of an ID")
	selection, confirmation, asJSON := selectionFlags(cmd), expectFlag(cmd), jsonFlag(cmd)
	group := &push.Group{}
	cmd.Flags().StringVar(&group.Thread, "thread", "", "the user's notifications of the `THREAD`")
	cmd.Flags().StringVar(&group.DigestKey, "digest-key", "", "the user's notifications with the digest `KEY`")
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, args []string, out io.Writer) error {
		rest := *selection
		rest.App, rest.User = "", ""
		ofGroup := group.Thread != "" || group.DigestKey != ""
		switch {
		case ofGroup && (*all || len(args) > 0):
			return misusedf("--thread and --digest-key select all matching notifications of a user: give them with neither an ID nor --all")
		case cmd.Flags().Changed("digest") && *others < 1:
			return misusedf("--digest: want 1 or more")
		case *all && *others > 0:
			return misusedf("--digest needs an ID: --all ends carriers of digests anyway")
		case *all && len(args) > 0:
			return misusedf("--all ends every match of the flags: give it without an ID")
		case *all:
			return cancelAll(ctx, b, *selection, confirmation, out, *asJSON)
		case cmd.Flags().Changed("expect"), selection.For != "":
			return misusedf("--expect and --for need --all")
		case len(args) == 0:
			group.Category, group.CollapseKey = selection.Category, selection.CollapseKey
			if group.Validate() != nil || selection.App == "" || selection.User == "" || *others > 0 {
				return misusedf("want an ID, or --app, --user and one of --thread, --collapse-key, --category and --digest-key, or --all")
			}
			return withdraw(ctx, b, selection.App, selection.User, *group, out, *asJSON)
		case !rest.All():
			return misusedf("--category and --collapse-key need --all, or --app and --user without an ID")
		}
		return cancelOne(ctx, b, push.Ref{ID: args[0], App: selection.App, User: selection.User}, *others, out, *asJSON)
	})
}

func cancelOne(ctx context.Context, b *apiclient.Client, ref push.Ref, others int, out io.Writer, asJSON bool) error {
	id := ref.ID
	err := b.Cancel(ctx, ref, others)
	if carries := new(push.CarriesError); errors.As(err, &carries) {
		return fmt.Errorf("%s: %w; --digest %d ends it with the others", id, err, carries.Others)
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

func withdraw(ctx context.Context, b *apiclient.Client, app, user string, g push.Group, out io.Writer, asJSON bool) error {
	done, err := b.Withdraw(ctx, app, user, g)
	if err != nil && done.Ended == 0 {
		return err
	}
	if asJSON {
		return errors.Join(printJSON(out, done), err)
	}
	text := words.Counted(done.Ended, "notification is", "notifications are") + " cancelled"
	if done.Carried > 0 {
		text += ", and " + words.Counted(done.Carried, "other", "others") + " with them"
	}
	if done.InFlight > 0 {
		text += "; " + words.Counted(done.InFlight, "is", "are") + " being sent"
	}
	fmt.Fprintln(os.Stderr, text+".")
	return err // the rest of the group was not ended
}
