package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/api/apiclient"
	"github.com/pushpace/pushpace/internal/app"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/throttle/limits"
)

func newLimits() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "limits",
		Short: "Print the limits in force, and override them for an app, a user or a category",
		Long: `limits sets and removes overrides: policies for an app, a user, a category, or any of
these together, in the place of the configured policy. A user's override comes before
one for all users, and at each level an app's before one for all apps. A
quota's rate is overridden the same way. Overrides are kept in Redis and take effect on
every worker within a second. When a limit is raised, waiting notifications move up. A
mute stops all notifications, whatever the limits are. Every change is logged.`,
		RunE: func(*cobra.Command, []string) error {
			return misusedf("limits: want get, set, unset, mute, unmute, list, quotas, export, import or log")
		},
	}
	cmd.AddCommand(newLimitsGet(), newLimitsSet(), newLimitsUnset(), newLimitsMute(), newLimitsUnmute(), newLimitsList(), newLimitsQuotas(), newLimitsExport(), newLimitsImport(), newLimitsLog())
	return cmd
}

// An overrideLevel is the level that a command's flags name.
type overrideLevel struct{ limits.Level }

func levelFlags(cmd *cobra.Command) *overrideLevel {
	l := &overrideLevel{}
	cmd.Flags().StringVar(&l.App, "app", "", "the `APP`; all without it")
	cmd.Flags().StringVarP(&l.User, "user", "u", "", "the `USER`; everyone without it")
	cmd.Flags().StringVar(&l.Category, "category", "", "the `CATEGORY`; the general limits without it")
	completeApps(cmd)
	completeCategories(cmd)
	return l
}

func (l *overrideLevel) String() string { return words.Level(l.Level) }

// check returns an error if the flags name no level.
func (l *overrideLevel) check() error {
	switch {
	case l.Level == limits.Level{Mute: true}:
		return misusedf("want --app, --user, --category or several of them")
	case l.Level == limits.Level{}:
		return misusedf("want --app, --user, --category or several of them, or --quota")
	case l.Quota != "" && l.Level != limits.Level{Quota: l.Quota}:
		return misusedf("--quota excludes --app, --user and --category: it is of all that share it")
	}
	return nil
}

// quotaFlag adds --quota to the level's flags.
func quotaFlag(cmd *cobra.Command, l *overrideLevel) {
	cmd.Flags().StringVar(&l.Quota, "quota", "", "the `QUOTA`, by its name in limits.quotas or as limits quotas lists it")
}

// byFlag adds --by, the operator's name in the log.
func byFlag(cmd *cobra.Command) {
	cmd.Flags().String("by", app.UserAtHost(), "`WHO` makes the change, for the log; through the API, the token's name")
	cmd.Flags().Lookup("by").DefValue = "USER@HOST" // the manual may be made on a different machine
}

// draftFlags adds the flags that a policy and a mute share, which the result reads.
func draftFlags(cmd *cobra.Command) *operate.Draft {
	d := &operate.Draft{}
	byFlag(cmd)
	endFlags(cmd, &d.Until, &d.For)
	return d
}

func newLimitsGet() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get",
		Short: "Print the limits in force for an app, a user, a category, these together, or everybody",
		Args:  cobra.NoArgs,
	}
	level, asJSON := levelFlags(cmd), jsonFlag(cmd)
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, _ []string, out io.Writer) error {
		in, err := b.Limits(ctx, level.Level)
		if err != nil {
			return err
		}
		if err := warnOfCategory(ctx, b, level.Category); err != nil {
			return err
		}
		if *asJSON {
			return printJSON(out, in)
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		row := func(name string, r limits.EffectivePolicy) {
			fmt.Fprintf(w, "%s\t%s\tfrom %s\t%s\n", name, r.Policy, r.Source.Words(), words.End(r.Until))
		}
		row("general", in.General)
		holds := in.General.Policy
		if own := in.OfCategory; own != nil {
			row("category", *own)
			if own.Policy.Quiet != nil || own.Policy.Exempt {
				holds = own.Policy
			}
		}
		for _, m := range in.Mutes {
			fmt.Fprintf(w, "mute\t%s\tof the %s\t%s\n", words.Muted(m.All), m.Source, words.End(m.Until))
		}
		if err := w.Flush(); err != nil {
			return err
		}
		return printNights(out, holds, level.App, level.User)
	})
}

func newLimitsSet() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set",
		Short: "Override the limits of an app, of a user, of a category or of these together, or a quota's rate",
		Long: `set replaces the whole policy at its level: a rule that is not given no longer applies.
It takes effect within a second, and ends by --until or --for, if given. A quota has one
rate for all workers together; its used units stay used.

--dry-run sets nothing. It prints which waiting notifications would leave earlier or later,
and how many at once; without --app, --user and --category, for a change of
limits.default.`,
		Example: `  pushpace limits set --user ada --min-gap 500ms --rate 30/1m --for 2h
  pushpace limits set --category marketing --rate 2/24h
  pushpace limits set --app shop --user ada --rate 5/1h
  pushpace limits set --user ada --category security --exempt
  pushpace limits set --category marketing --rate 1/24h --quiet-hours 20:00-10:00 --quiet-hours 'Su 00:00-24:00'
  pushpace limits set --quota europe --rate 300000/1m --for 2h
  pushpace limits set --category marketing --rate 10/24h --dry-run`,
		Args: cobra.NoArgs,
	}
	level, draft := levelFlags(cmd), draftFlags(cmd)
	quotaFlag(cmd, level)
	f := cmd.Flags()
	f.StringVar(&draft.MinGap, "min-gap", "", "`DURATION` that lies between any two at least, such as 1s")
	f.StringArrayVar(&draft.Rates, "rate", nil, "`COUNT/PERIOD`, such as 10/1m; may be repeated")
	f.StringArrayVar(&draft.Quiet, "quiet-hours", nil, "`WINDOW` in which only critical notifications and exempt categories are sent, such as 22:00-08:00 or 'Sa-Su 22:00-10:00'; may be repeated; none for no quiet hours")
	f.BoolVar(&draft.Policy.Exempt, "exempt", false, "take the category out of every limit")
	dry, asJSON := dryFlag(cmd), jsonFlag(cmd)
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, _ []string, out io.Writer) error {
		override, err := draft.Read(level.Level, time.Now())
		if err != nil {
			return err
		}
		if *dry {
			return preview(ctx, b, level, &override, *asJSON, out)
		}
		if err := level.check(); err != nil {
			return err
		}
		set, err := b.SetOverride(ctx, override)
		if err != nil {
			return err
		}
		for _, w := range set.Warnings {
			warnUser(w)
		}
		if !*asJSON {
			fmt.Fprintf(os.Stderr, "In force for %s: %s.\n", level, words.Override(&set.Override))
			return nil
		}
		return printJSON(out, set)
	})
}

func newLimitsUnset() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "unset",
		Short: "Remove an override, so that the policy below it is in force again",
		Args:  cobra.NoArgs,
	}
	level, asJSON := levelFlags(cmd), jsonFlag(cmd)
	byFlag(cmd)
	quotaFlag(cmd, level)
	dry := dryFlag(cmd)
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, _ []string, out io.Writer) error {
		if err := level.check(); err != nil {
			return err
		}
		if *dry {
			return preview(ctx, b, level, nil, *asJSON, out)
		}
		there, err := b.UnsetOverride(ctx, level.Level)
		if err == nil && !there {
			return fmt.Errorf("%s has no override", level)
		}
		if err != nil {
			return err
		}
		if !*asJSON {
			fmt.Fprintf(os.Stderr, "The override of %s is gone.\n", level)
			return nil
		}
		return printJSON(out, level.Level)
	})
}

func newLimitsLog() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Print the changes of limits with operator, time, old and new value, newest first",
		Args:  cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	newest := cmd.Flags().IntP("newest", "n", 100, "list at most the newest `N` changes")
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, _ []string, out io.Writer) error {
		changes, err := b.LimitsLog(ctx, *newest)
		if err != nil {
			return err
		}
		if *asJSON {
			return printEach(out, changes)
		}
		if len(changes) == 0 {
			return none("No limit was ever changed.")
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "VERSION\tAT\tBY\tCHANGE\tAPP\tUSER\tCATEGORY\tQUOTA\tFROM\tTO")
		for _, c := range changes {
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Version, words.Stamp(c.At), words.Quoted(c.By), c.Why,
				words.Quoted(c.App), words.Quoted(c.User), words.Quoted(c.Category), words.Quoted(c.Quota), words.Override(c.From), words.Override(c.To))
		}
		return w.Flush()
	})
}
