package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/api/apiclient"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/throttle/limits"
)

// dryFlag adds --dry-run to a command that changes limits.
func dryFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("dry-run", false, "print the effect on waiting notifications, and change nothing")
}

// preview prints the effect of an override; nil means the removal of the level's override.
func preview(ctx context.Context, b *apiclient.Client, of *overrideLevel, o *limits.Override, asJSON bool, out io.Writer) error {
	told, err := b.Preview(ctx, of.Level, o)
	if err != nil {
		return err
	}
	if told == nil {
		return fmt.Errorf("%s has no override", of)
	}
	for _, w := range told.Warnings {
		warnUser(w)
	}
	if asJSON {
		return printJSON(out, told)
	}
	if err := printPreview(out, of, told); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "Nothing was changed.")
	return nil
}

func printPreview(out io.Writer, of *overrideLevel, told *operate.Preview) error {
	level := of.String()
	if level == "" {
		level = "everyone"
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name string, p limits.EffectivePolicy) {
		policy := p.Policy.String()
		if of.Quota != "" && len(p.Policy.Rates) == 0 {
			policy = "its rate"
		}
		fmt.Fprintf(w, "%s\t%s\tfrom %s\t%s\n", name, policy, p.Source.Words(), words.End(p.Until))
	}
	fmt.Fprintf(out, "For %s:\n", level)
	row("now", told.Before)
	row("then", told.After)
	if err := w.Flush(); err != nil {
		return err
	}
	if err := printNights(out, told.After.Policy, of.App, of.User); err != nil {
		return err
	}
	if of.Quota != "" {
		fmt.Fprintln(out, "No forecast for quotas: waiting notifications have no scheduled time.")
		return nil
	}
	for _, sentence := range words.Preview(told) {
		fmt.Fprintln(out, sentence)
	}
	if told.Notifications.At == 0 {
		return nil
	}
	last := "The last"
	if !told.All() {
		last += " of these"
	}
	fmt.Fprintf(out, "%s would leave at %s; now it is %s.\n", last, words.Stamp(told.LastAfter), words.Stamp(told.LastBefore))
	if len(told.Moves) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nID\tAPP\tCATEGORY\tNOW\tTHEN")
	for _, m := range told.Moves {
		then := words.Stamp(m.After)
		if m.Free {
			then = "at once"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", words.Quoted(m.ID), words.Quoted(m.App), words.Quoted(m.Category), words.Stamp(m.Before), then)
	}
	return w.Flush()
}
