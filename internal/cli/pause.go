package cli

import (
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
	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
)

// pauseFlags adds the flags that select a pause. The result reads them.
func pauseFlags(cmd *cobra.Command) func() (pause.Pause, error) {
	app := cmd.Flags().String("app", "", "notifications of the `APP`")
	platform := cmd.Flags().String("platform", "", "notifications for the `PLATFORM`, "+fielderrors.List(push.Platforms(), "or")+", or to one push service, such as "+string(push.WebPushMozilla))
	category := cmd.Flags().String("category", "", "notifications of the `CATEGORY`")
	all := cmd.Flags().Bool("all", false, "everything, of all apps")
	completeApps(cmd)
	completeCategories(cmd)
	var names []string
	for _, p := range push.PlatformsAndServices() {
		names = append(names, string(p))
	}
	complete(cmd, "platform", names...)
	return func() (pause.Pause, error) {
		p := pause.Pause{App: *app, Platform: push.Platform(*platform), Category: *category}
		switch some := p != (pause.Pause{}); {
		case !some && !*all:
			return p, misusedf("say what: --app, --platform, --category or several of them; or --all")
		case some && *all:
			return p, misusedf("--all cannot be combined with --app, --platform or --category")
		}
		return p, badPause(p.Validate())
	}
}

func newPause() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Pause an app, a platform, a category, or everything",
		Long: `pause stops the sending of every notification that matches all given flags, on all workers
within a second. Paused notifications stay on the queue, and use no attempts and no slots.
One that expires meanwhile ends as expired. All others are sent as usual. The pause ends
with resume, or by --for or --until. The same pause again replaces its end and reason.`,
		Example: `  pushpace pause --app shop --platform apns --for 1h --reason "the new certificate is not there yet"
  pushpace pause --category marketing`,
		Args: cobra.NoArgs,
	}
	selected, until := pauseFlags(cmd), untilFlags(cmd)
	byFlag(cmd)
	reason := cmd.Flags().String("reason", "", "the reason, shown to everyone: a `TEXT`")
	asJSON := jsonFlag(cmd)
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, _ []string, out io.Writer) error {
		p, err := selected()
		if err != nil {
			return err
		}
		if p.Until, err = until(); err != nil {
			return err
		}
		if p.Reason = *reason; p.Validate() != nil {
			return badPause(p.Validate())
		}
		if err := warnOfCategory(ctx, b, p.Category); err != nil {
			return err
		}
		if p, err = b.Pause(ctx, p); err != nil {
			return err
		}
		if *asJSON {
			return printJSON(out, p)
		}
		printPaused(ctx, b, p)
		return nil
	})
}

// printPaused prints a new pause, the number of its waiting notifications, and its end.
func printPaused(ctx context.Context, b *apiclient.Client, p pause.Pause) {
	what, flags := describePause(p)
	text := "Paused: " + what
	if !p.Until.IsZero() {
		text += " " + words.End(p.Until).String()
	}
	if p.Platform == "" { // the queue cannot be searched by platform
		if n := countQueued(ctx, b, inspect.Selection{App: p.App, Category: p.Category}); n != "" {
			text += "; " + n
		}
	}
	fmt.Fprintln(os.Stderr, text+". To end it: pushpace resume "+flags)
}

// describePause returns a pause's selection in words and as flags.
func describePause(p pause.Pause) (text, flags string) {
	var say, flag []string
	for _, part := range []struct{ name, value string }{{"app", p.App}, {"platform", string(p.Platform)}, {"category", p.Category}} {
		if part.value != "" {
			say = append(say, part.name+" "+words.Quoted(part.value))
			flag = append(flag, "--"+part.name+" "+words.Quoted(part.value))
		}
	}
	if len(say) == 0 {
		return "everything", "--all"
	}
	return strings.Join(say, ", "), strings.Join(flag, " ")
}

// warnOfCategory warns if a category is not configured: the command then may have no effect.
func warnOfCategory(ctx context.Context, b *apiclient.Client, names ...string) error {
	if len(names) == 0 || slices.Equal(names, []string{""}) {
		return nil
	}
	configured, err := b.Categories(ctx)
	for _, name := range names {
		if w := operate.CategoryWarning(name, configured); err == nil && w != "" {
			warnUser(w)
		}
	}
	return err
}

// badPause is the error of flags that select no pause.
func badPause(err error) error {
	var faults push.Faults
	if errors.As(err, &faults) {
		return misusedf("--%s: %s", strings.TrimPrefix(faults[0].Field, "/"), faults[0].Problem)
	}
	return err
}

func newResume() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "End a pause of an operator or a provider",
		Long: `resume ends the pause that was begun with the same flags. Its notifications return to the
workers within seconds, the critical ones first and then in the order of acceptance, and
keep to their limits.

Without --category it also ends the providers' pauses and troubles that pauses lists, as
far as the flags cover them. Every worker tries such a provider again within a second; its
notifications follow, faster and faster, after a push succeeds. Use it for a credential
that was mended outside pushpace; a new credential ends its pause by itself.`,
		Args: cobra.NoArgs,
	}
	selected, asJSON := pauseFlags(cmd), jsonFlag(cmd)
	byFlag(cmd)
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, _ []string, out io.Writer) error {
		p, err := selected()
		if err != nil {
			return err
		}
		ended, err := b.Resume(ctx, p)
		if err == nil && len(ended) == 0 {
			what, _ := describePause(p)
			return fmt.Errorf("there is no pause of %s, and none of its providers is in trouble: see pushpace pauses", what)
		}
		if err != nil {
			return err
		}
		for _, p := range ended {
			if *asJSON {
				err = printJSON(out, p)
			} else {
				_, err = fmt.Fprintln(os.Stderr, "ended:", words.Pause(&p, time.Now()))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func newPauses() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pauses",
		Short: "List the pauses of operators and providers, and the providers in trouble",
		Long: `pauses lists why notifications stay on the queue. KIND is operator for an operator's pause,
provider for a pause that a provider's answer asks for, or trouble for a provider that
fails; then UNTIL is the next attempt. WAITING is about the number of notifications that
wait for it.`,
		Args: cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, _ []string, out io.Writer) error {
		list, err := b.Pauses(ctx)
		if err != nil {
			return err
		}
		if *asJSON {
			return printEach(out, list)
		}
		if len(list) == 0 {
			return none("Nothing is paused.")
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "KIND\tAPP\tPLATFORM\tCATEGORY\tBY\tAT\tUNTIL\tWAITING\tREASON")
		for _, p := range list {
			until := orAny(stampOrNone(p.Until))
			if p.Kind == pause.Trouble && !p.Until.After(time.Now()) { // a probe is due
				until = "now"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", p.Kind, words.Quoted(p.App), orAny(string(p.Platform)), words.Quoted(p.Category),
				words.Quoted(p.By), orAny(stampOrNone(p.At)), until, p.Waiting, orAny(words.Because(&p)))
		}
		return w.Flush()
	})
}

func orAny(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func stampOrNone(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return words.Stamp(t)
}
