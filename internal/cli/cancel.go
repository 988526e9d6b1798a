package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

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
		given := func(names ...string) (flags []string) {
			for _, name := range names {
				if cmd.Flags().Changed(name) {
					flags = append(flags, "--"+name)
				}
			}
			return flags
		}
		var empty []string // an unset variable of a shell would select more than was meant
		for _, flag := range given("app", "user", "category", "collapse-key", "for", "thread", "digest-key") {
			if cmd.Flags().Lookup(flag[2:]).Value.String() == "" {
				empty = append(empty, flag)
			}
		}
		groups, onlyOfUser, onlyOfAll := given("thread", "collapse-key", "category", "digest-key"), given("thread", "digest-key"), given("expect", "for")
		switch {
		case cmd.Flags().Changed("digest") && *others < 1:
			return misusedf("--digest: want 1 or more")
		case *others > 0 && len(args) == 0:
			return misusedf("--digest needs an ID: without one, carriers of digests end anyway")
		case *all && len(args) > 0:
			return misusedf("--all ends every match of the flags: give it without an ID")
		case len(empty) > 0:
			return misusedf("%s: it is empty", empty[0])
		case *all && len(onlyOfUser) > 0:
			return misusedf("%s: give it without --all, and with --app and --user", onlyOfUser[0])
		case *all:
			return cancelAll(ctx, b, *selection, confirmation, out, *asJSON)
		case len(onlyOfAll) > 0:
			return misusedf("%s needs --all", onlyOfAll[0])
		case len(args) > 0 && len(groups) > 0:
			return misusedf("%s selects several notifications: give it without an ID", groups[0])
		case len(args) > 0:
			return cancelOne(ctx, b, push.Ref{ID: args[0], App: selection.App, User: selection.User}, *others, out, *asJSON)
		case len(groups) == 0:
			return misusedf("want an ID, or --app, --user and one of --thread, --collapse-key, --category and --digest-key, or --all")
		case len(groups) > 1:
			return misusedf("give only one of %s", strings.Join(groups, " and "))
		case selection.App == "":
			return misusedf("%s needs --app", groups[0])
		case selection.User == "":
			return misusedf("%s needs --user", groups[0])
		}
		group.Category, group.CollapseKey = selection.Category, selection.CollapseKey
		return withdraw(ctx, b, selection.App, selection.User, *group, out, *asJSON)
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
	_ = warnOfCategory(ctx, b, g.Category) // a producer's token may not read the categories
	done, err := b.Withdraw(ctx, app, user, g)
	if err != nil && done.Ended == 0 {
		return err
	}
	if asJSON {
		return errors.Join(printJSON(out, done), err)
	}
	fmt.Fprintln(os.Stderr, withdrawn(done))
	return err // the rest of the group was not ended
}

// withdrawn describes the results of a withdrawal.
func withdrawn(done push.Withdrawn) string {
	text := words.Counted(done.Ended, "notification is", "notifications are") + " cancelled"
	if done.Carried > 0 {
		text += ", and " + words.Counted(done.Carried, "other", "others") + " with them"
	}
	if done.InFlight > 0 {
		text += "; a worker is sending or checking " + words.Counted(done.InFlight, "more", "more") + ": repeat the command until none is left"
	}
	return text + "."
}
