package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/api/apiclient"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/words"
)

// letterFlags adds the flags that select dead letters. The result reads them.
func letterFlags(cmd *cobra.Command) func() (operate.LetterSelection, error) {
	s := &operate.LetterSelection{}
	f := cmd.Flags()
	f.StringVar(&s.App, "app", "", "only the `APP`")
	f.StringVar(&s.Category, "category", "", "only the `CATEGORY`")
	f.StringVar(&s.Reason, "reason", "", "only the `REASON`, as dead list shows it")
	durationVar(f, &s.Since, "since", "only those that ended within the last `DURATION`, such as 2h or 5d")
	completeApps(cmd)
	completeCategories(cmd)
	complete(cmd, "reason", words.Reasons()...)
	return func() (operate.LetterSelection, error) {
		if s.Since < 0 || s.Since == 0 && f.Changed("since") {
			return *s, misusedf("--since: want a positive duration such as 2h")
		}
		return *s, nil
	}
}

func newDeadList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the dead letters, the newest first, and count them by reason",
		Long: `list lists the newest dead letters first, and counts all by reason. requeue --all and
purge --all take the same flags.

With --json each is one line. Without --limit it prints all, in no order; letters that
come or go meanwhile may be missed or appear twice.`,
		Args: cobra.NoArgs,
	}
	selected, asJSON := letterFlags(cmd), jsonFlag(cmd)
	limit := cmd.Flags().Int("limit", 100, "list at most `N` dead letters")
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, _ []string, out io.Writer) error {
		s, err := selected()
		switch {
		case err != nil:
			return err
		case *limit < 1:
			return misusedf("--limit: want 1 or more")
		case *asJSON && !cmd.Flags().Changed("limit"):
			return printLettersAsTheyCome(ctx, b, s, out)
		}
		letters, counts, err := newestLetters(ctx, b, s, *limit)
		if err != nil {
			return err
		}
		if !*asJSON {
			return printLetters(out, letters, counts, s == operate.LetterSelection{})
		}
		return printEach(out, letters)
	})
}

func printLettersAsTheyCome(ctx context.Context, b *apiclient.Client, s operate.LetterSelection, out io.Writer) error {
	var failed error
	err := b.Letters(ctx, s, func(l *store.Letter) bool {
		l.Job = nil
		failed = printJSON(out, l)
		return failed == nil
	})
	return cmp.Or(failed, warnUnread(err))
}

// newestLetters returns the newest dead letters without their jobs, and the counts by reason.
func newestLetters(ctx context.Context, b *apiclient.Client, s operate.LetterSelection, most int) (newest []*store.Letter, counts map[string]int, err error) {
	counts = map[string]int{}
	trim := func() {
		slices.SortFunc(newest, func(a, b *store.Letter) int {
			return cmp.Or(b.At.Compare(a.At), strings.Compare(a.ID, b.ID))
		})
		newest = slices.CompactFunc(newest, func(a, b *store.Letter) bool { return a.ID == b.ID }) // the API may list a letter twice
		newest = newest[:min(len(newest), most)]
	}
	err = b.Letters(ctx, s, func(l *store.Letter) bool {
		l.Job = nil
		counts[l.Reason]++
		if newest = append(newest, l); len(newest)/2 >= most {
			trim()
		}
		return true
	})
	trim()
	return newest, counts, warnUnread(err)
}

// printLetters prints a table and the counts by reason.
func printLetters(out io.Writer, letters []*store.Letter, counts map[string]int, everything bool) error {
	if len(letters) == 0 {
		return none("No dead letter" + map[bool]string{true: " is kept.", false: " matches."}[everything])
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATE\tREASON\tATTEMPTS\tAT\tAPP\tUSER\tPLATFORM")
	for _, l := range letters {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", words.Quoted(l.ID), l.State, l.Reason, l.Attempts, words.Stamp(l.At),
			words.Quoted(l.App), words.Quoted(l.User), orAny(words.Platforms(l.Outcomes)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	all := 0
	for _, n := range counts {
		all += n
	}
	if all > len(letters) {
		fmt.Fprintf(os.Stderr, "%s; --limit shows more, --json all.\n", words.Counted(all-len(letters), "more is kept", "more are kept"))
	}
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nREASON\tLETTERS")
	for _, reason := range words.Tallies(counts) {
		fmt.Fprintf(w, "%s\t%d\n", reason.Name, reason.Count)
	}
	return w.Flush()
}
