package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/apiclient"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
)

func newDeadList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the dead letters, the newest first, and count them by reason",
		Long: `Lists the newest dead letters, the newest first, and counts all by reason.

With --json there is one line for each, and without --limit all are told as they
come, in no order. What comes or goes while they are read may be missed, or told
twice.`,
		Args: cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	limit := cmd.Flags().Int("limit", 100, "list so `MANY` at most")
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, _ []string, out io.Writer) error {
		switch {
		case *limit < 1:
			return misusedf("--limit: want 1 or more")
		case *asJSON && !cmd.Flags().Changed("limit"):
			return printLettersAsTheyCome(ctx, b, out)
		}
		letters, counts, err := newestLetters(ctx, b, *limit)
		if err != nil {
			return err
		}
		if !*asJSON {
			return printLetters(out, letters, counts)
		}
		for _, l := range letters {
			if err := printJSON(out, l); err != nil {
				return err
			}
		}
		return nil
	})
}

func printLettersAsTheyCome(ctx context.Context, b *apiclient.Client, out io.Writer) error {
	var failed error
	err := b.Letters(ctx, func(l *push.Letter) bool {
		l.Job = nil
		failed = printJSON(out, l)
		return failed == nil
	})
	return cmp.Or(failed, err)
}

// newestLetters returns so many dead letters without their jobs, the newest first,
// and how many there are for each reason.
func newestLetters(ctx context.Context, b *apiclient.Client, most int) (newest []*push.Letter, counts map[string]int, err error) {
	counts = map[string]int{}
	trim := func() {
		slices.SortFunc(newest, func(a, b *push.Letter) int {
			return cmp.Or(b.At.Compare(a.At), strings.Compare(a.ID, b.ID))
		})
		newest = slices.CompactFunc(newest, func(a, b *push.Letter) bool { return a.ID == b.ID }) // told twice
		newest = newest[:min(len(newest), most)]
	}
	err = b.Letters(ctx, func(l *push.Letter) bool {
		l.Job = nil
		counts[l.Reason]++
		if newest = append(newest, l); len(newest)/2 >= most {
			trim()
		}
		return true
	})
	trim()
	return newest, counts, err
}

// printLetters prints a table, and how many there are for each reason.
func printLetters(out io.Writer, letters []*push.Letter, counts map[string]int) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATE\tREASON\tATTEMPTS\tAT\tAPP\tUSER\tPLATFORM")
	for _, l := range letters {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", words.Quoted(l.ID), l.State, l.Reason, l.Attempts, words.Stamp(l.At),
			words.Quoted(l.App), words.Quoted(l.User), platformsOf(l))
	}
	if err := w.Flush(); err != nil || len(letters) == 0 {
		return err
	}
	all := 0
	for _, n := range counts {
		all += n
	}
	if all > len(letters) {
		fmt.Fprintf(os.Stderr, "%d more are kept; --limit shows more, --json all.\n", all-len(letters))
	}
	reasons := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nREASON\tLETTERS")
	for _, reason := range reasons {
		fmt.Fprintf(w, "%s\t%d\n", reason, counts[reason])
	}
	return w.Flush()
}

// platformsOf are those of the letter's targets, "-" where none is known.
func platformsOf(l *push.Letter) string {
	var all []string
	for _, o := range l.Outcomes {
		if platform := string(o.Platform); platform != "" && !slices.Contains(all, platform) {
			all = append(all, platform)
		}
	}
	return cmp.Or(strings.Join(all, ", "), "-")
}
