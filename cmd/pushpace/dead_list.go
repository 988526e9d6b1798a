package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/timeline"
	"github.com/pushpace/pushpace/push"
)

func newDeadList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the dead letters, the newest first, and count them by reason",
		Args:  cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	return operate(cmd, func(ctx context.Context, b backend, _ []string, out io.Writer) error {
		letters, err := newestLetters(ctx, b)
		if err != nil {
			return err
		}
		if !*asJSON {
			return printLetters(out, letters)
		}
		for _, l := range letters {
			if err := printJSON(out, l); err != nil {
				return err
			}
		}
		return nil
	})
}

// newestLetters answers all dead letters without their jobs, the newest first. One
// that comes twice while others come and go is told once.
func newestLetters(ctx context.Context, b backend) ([]*push.Letter, error) {
	known := map[string]*push.Letter{}
	err := b.Letters(ctx, func(l *push.Letter) bool {
		l.Job = nil
		known[l.ID] = l
		return true
	})
	return slices.SortedFunc(maps.Values(known), func(a, b *push.Letter) int {
		return cmp.Or(b.At.Compare(a.At), strings.Compare(a.ID, b.ID))
	}), err
}

// printLetters prints a table, and how many there are for each reason.
func printLetters(out io.Writer, letters []*push.Letter) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATE\tREASON\tATTEMPTS\tAT\tAPP\tUSER\tPLATFORM")
	counts := map[string]int{}
	for _, l := range letters {
		counts[l.Reason]++
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", quoted(l.ID), l.State, l.Reason, l.Attempts, timeline.Stamp(l.At),
			quoted(l.App), quoted(l.User), platformsOf(l))
	}
	if err := w.Flush(); err != nil || len(letters) == 0 {
		return err
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
