package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/api/apiclient"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
)

// selectionFlags adds the flags that select waiting notifications.
func selectionFlags(cmd *cobra.Command) *inspect.Selection {
	s := &inspect.Selection{}
	f := cmd.Flags()
	f.StringVar(&s.App, "app", "", "only the `APP`")
	f.StringVar(&s.User, "user", "", "only the `USER`")
	f.StringVar(&s.Category, "category", "", "only the `CATEGORY`")
	f.StringVar(&s.CollapseKey, "collapse-key", "", "only the collapse `KEY`")
	f.StringVar((*string)(&s.For), "for", "", "only the `CAUSE`: "+strings.Join(inspect.CauseNames(), ", "))
	complete(cmd, "for", inspect.CauseNames()...)
	completeApps(cmd)
	completeCategories(cmd)
	return s
}

// eachQueued calls f once with each selected notification until f returns false.
func eachQueued(ctx context.Context, b *apiclient.Client, s inspect.Selection, f func(inspect.Queued) bool) error {
	seen := map[push.Ref]bool{}
	return b.Queued(ctx, s, func(q inspect.Queued) bool {
		if seen[q.Ref()] {
			return true
		}
		seen[q.Ref()] = true
		return f(q)
	})
}

// warnUnread warns of shards and causes that could not be read, and returns any other error.
func warnUnread(err error) error {
	if _, rest := store.Unreachable(err); rest != nil && !errors.Is(err, inspect.ErrCausesUnread) {
		return err
	}
	if err != nil {
		warnUser(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

// causesHelp lists the causes of a wait.
func causesHelp() string {
	var b strings.Builder
	for _, c := range inspect.Causes {
		fmt.Fprintf(&b, "  %-11s %s\n", c, words.Cause(c))
	}
	return b.String()
}

func newWaiting() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "waiting",
		Short: "List the waiting notifications with cause and end of the wait",
		Long: `waiting lists the waiting notifications, the next ones first, at most --limit. FOR is the
cause of the wait:

` + causesHelp() + `
With --json each is one line, in no order, and without --limit all are printed. A
notification that moves meanwhile may be missed.`,
		Example: `  pushpace waiting --category marketing
  pushpace waiting --user ada --json`,
		Args: cobra.NoArgs,
	}
	selection, asJSON := selectionFlags(cmd), jsonFlag(cmd)
	limit := cmd.Flags().Int("limit", 100, "list at most `N` notifications")
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, _ []string, out io.Writer) error {
		if *limit < 1 {
			return misusedf("--limit: want 1 or more")
		}
		if err := warnOfCategory(ctx, b, selection.Category); err != nil {
			return err
		}
		if *asJSON {
			return printQueued(ctx, b, *selection, out, *limit, cmd.Flags().Changed("limit"))
		}
		return listQueued(ctx, b, *selection, out, *limit)
	})
}

// printQueued prints each notification as soon as it is read.
func printQueued(ctx context.Context, b *apiclient.Client, s inspect.Selection, out io.Writer, most int, limited bool) error {
	n := 0
	var failed error
	err := eachQueued(ctx, b, s, func(q inspect.Queued) bool {
		failed = printJSON(out, q)
		n++
		return failed == nil && (!limited || n < most)
	})
	return cmp.Or(failed, warnUnread(err))
}

// listQueued prints the waiting notifications that are due first, and how many more wait; most
// bounds the printed ones.
func listQueued(ctx context.Context, b *apiclient.Client, s inspect.Selection, out io.Writer, most int) error {
	var list []inspect.Queued
	n := 0
	first := func(a, b inspect.Queued) int {
		return cmp.Or(a.Until.Compare(b.Until), a.Accepted.Compare(b.Accepted), cmp.Compare(a.ID, b.ID))
	}
	err := eachQueued(ctx, b, s, func(q inspect.Queued) bool {
		n++
		if list = append(list, q); len(list)/2 >= most {
			slices.SortFunc(list, first)
			list = list[:most]
		}
		return true
	})
	if err := warnUnread(err); err != nil {
		return err
	}
	if n == 0 {
		return none("Nothing waits" + selected(s) + ".")
	}
	slices.SortFunc(list, first)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tAPP\tUSER\tCATEGORY\tFOR\tUNTIL\tACCEPTED")
	for _, q := range list[:min(len(list), most)] {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", words.Quoted(q.ID), words.Quoted(q.App), words.Quoted(q.User), words.Quoted(q.Category), waitsFor(q),
			orAny(stampOrNone(q.Until)), orAny(stampOrNone(q.Accepted)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if n > most {
		fmt.Fprintf(os.Stderr, "%s%s; --limit shows more, --json all.\n", words.Counted(n-most, "more waits", "more wait"), selected(s))
	}
	return nil
}

// waitsFor returns the cause of a wait for a column.
func waitsFor(q inspect.Queued) string {
	if text := words.WaitsFor(q); text != words.Cause(q.For) {
		return string(q.For) + ": " + text
	}
	return string(q.For)
}

// selected returns the selection as the end of a phrase.
func selected(s inspect.Selection) string {
	text := ""
	for _, part := range []struct{ what, value string }{{"for app", s.App}, {"for user", s.User}, {"of category", s.Category}, {"with collapse key", s.CollapseKey}, {"for", string(s.For)}} {
		if part.value != "" {
			text += " " + part.what + " " + words.Quoted(part.value)
		}
	}
	return text
}

// countTime bounds the time of a count.
const countTime = time.Second

// countQueued counts the waiting notifications in words, within countTime: "no notification
// waits", "at least 12000 notifications wait". It returns "" if the count fails.
func countQueued(ctx context.Context, b *apiclient.Client, s inspect.Selection) string {
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	n := 0
	err := eachQueued(ctx, b, s, func(inspect.Queued) bool { n++; return true })
	if err != nil && (n == 0 || ctx.Err() == nil) {
		return ""
	}
	return words.Waitings(n, err != nil)
}

// cancelAll cancels the selection after a confirmation of its size.
func cancelAll(ctx context.Context, b *apiclient.Client, s inspect.Selection, c *confirmation, out io.Writer, asJSON bool) error {
	if err := warnOfCategory(ctx, b, s.Category); err != nil {
		return err
	}
	var refs []push.Ref
	if err := eachQueued(ctx, b, s, func(q inspect.Queued) bool { refs = append(refs, q.Ref()); return true }); err != nil {
		return err
	}
	if err := c.confirm(len(refs), words.Counted(len(refs), "waits", "wait")+selected(s), "cancel"); err != nil {
		return err
	}
	done, err := operate.InPages(ctx, refs, b.CancelEach)
	return printBulk(done, out, asJSON, "cancelled", err)
}
