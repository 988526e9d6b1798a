package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/api/apiclient"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
)

func newDeadRequeue() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "requeue ID [ID …] | requeue --all [--reason REASON …] [--expect N]",
		Short: "Put dead letters back on their queue, with a new budget of attempts",
		Long: `requeue puts the dead letters with these IDs back on their queue. With --all it requeues
all that match the given flags: it counts them first and asks on the terminal, or
continues if there are at most --expect. With IDs, --app and --user choose the dead letter if
several users have this ID. The command may be interrupted and repeated.`,
		Example: `  pushpace dead requeue order-4711-shipped
  pushpace dead requeue --all --reason unknown_app --since 1h --expect 143`,
		Args: someOrAll,
	}
	return actingOnLetters(cmd, letterAct{"requeue", "requeued", (*apiclient.Client).Requeue, (*apiclient.Client).RequeueEach})
}

func newDeadPurge() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "purge ID [ID …] | purge --all [--reason REASON …] [--expect N]",
		Short: "Delete dead letters; audit still counts their notifications",
		Long: `purge deletes the dead letters with these IDs for good. With --all it deletes all that
match the given flags: it counts them first and asks on the terminal, or continues if there
are at most --expect. With IDs, --app and --user choose the dead letter if several users have
this ID.`,
		Example: `  pushpace dead purge order-4711-shipped
  pushpace dead purge --all --reason line_full --expect 12`,
		Args: someOrAll,
	}
	return actingOnLetters(cmd, letterAct{"purge", "purged", (*apiclient.Client).Purge, (*apiclient.Client).PurgeEach})
}

// A letterAct is an action on dead letters.
type letterAct struct {
	verb, done string
	one        func(b *apiclient.Client, ctx context.Context, ref push.Ref) error
	each       func(b *apiclient.Client, ctx context.Context, refs []push.Ref) []error
}

// actingOnLetters makes the command act on dead letters by ID, or on all that match its flags.
func actingOnLetters(cmd *cobra.Command, act letterAct) *cobra.Command {
	all := cmd.Flags().Bool("all", false, "all that match the other flags, instead of IDs")
	selected, confirmation, asJSON := letterFlags(cmd), expectFlag(cmd), jsonFlag(cmd)
	user := cmd.Flags().String("user", "", "with IDs: the `USER` of the notification")
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, ids []string, out io.Writer) error {
		selection, err := selected()
		switch {
		case err != nil:
			return err
		case *all && len(ids) > 0:
			return misusedf("--all takes every match of the flags: give it without IDs")
		case *all && *user != "":
			return misusedf("--user needs IDs")
		case *all:
			return actOnAll(ctx, b, selection, act, confirmation, out, *asJSON)
		case selection != operate.LetterSelection{App: selection.App} || cmd.Flags().Changed("expect"):
			return misusedf("--category, --reason, --since and --expect need --all")
		}
		return eachLetter(ctx, b, ids, owner{selection.App, *user}, act, out, *asJSON)
	})
}

// actOnAll acts on the selection after a confirmation of its size.
func actOnAll(ctx context.Context, b *apiclient.Client, s operate.LetterSelection, act letterAct, c *confirmation, out io.Writer, asJSON bool) error {
	var refs []push.Ref
	seen := map[push.Ref]bool{}
	err := b.Letters(ctx, s, func(l *store.Letter) bool {
		if ref := l.Ref(); !seen[ref] {
			seen[ref] = true
			refs = append(refs, ref)
		}
		return true
	})
	if err != nil {
		return err
	}
	if err := c.confirm(len(refs), words.Counted(len(refs), "dead letter matches", "dead letters match"), act.verb); err != nil {
		return err
	}
	done, err := operate.InPages(ctx, refs, func(ctx context.Context, refs []push.Ref) []error { return act.each(b, ctx, refs) })
	return printBulk(done, out, asJSON, act.done, err)
}

// eachLetter acts on each letter, continues after a failure, and prints the number done.
func eachLetter(ctx context.Context, b *apiclient.Client, ids []string, w owner, act letterAct, out io.Writer, asJSON bool) error {
	var errs []error
	defer func() {
		if n := len(ids) - len(errs); n > 0 && !asJSON {
			fmt.Fprintf(os.Stderr, "%d %s.\n", n, act.done)
		}
	}()
	for _, id := range ids {
		done := struct {
			ID    string `json:"id"`
			Error string `json:"error,omitempty"`
		}{ID: id}
		if err := act.one(b, ctx, w.of(id)); err != nil {
			errs = append(errs, ofID(id, err))
			done.Error = err.Error()
		}
		if asJSON {
			if err := printJSON(out, done); err != nil {
				return errors.Join(append(errs, err)...)
			}
		}
	}
	return errors.Join(errs...)
}
