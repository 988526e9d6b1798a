package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/names"
	"github.com/pushpace/pushpace/internal/timeline"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker"
)

// holdFlags adds the flags that say what is paused, and answers what reads them.
func holdFlags(cmd *cobra.Command) func() (worker.Hold, error) {
	app := cmd.Flags().String("app", "", "what is for the `APP`")
	platform := cmd.Flags().String("platform", "", "what goes to the `PLATFORM`, apns or fcm")
	category := cmd.Flags().String("category", "", "what is of the `CATEGORY`")
	all := cmd.Flags().Bool("all", false, "everything, of all apps")
	completeApps(cmd)
	completeCategories(cmd)
	complete(cmd, "platform", string(push.APNs), string(push.FCM))
	return func() (worker.Hold, error) {
		h := worker.Hold{App: *app, Platform: push.Platform(*platform), Category: *category}
		switch some := h != (worker.Hold{}); {
		case !some && !*all:
			return h, misusedf("say what: --app, --platform, --category or several of them; or --all")
		case some && *all:
			return h, misusedf("--all excludes --app, --platform and --category")
		}
		return h, nil
	}
}

func newPause() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Keep notifications on the queue: an app's, a platform's, a category's, or all",
		Long: `pause has all workers keep on the queue what matches every flag that is given,
within a second. What is paused spends neither attempts nor slots; what expires
meanwhile ends as expired; everything else flows on. It ends with resume, or by
--for or --until. Pausing the same again changes its end and its reason.`,
		Example: `  pushpace pause --app shop --platform apns --for 1h --reason "the new certificate is not there yet"
  pushpace pause --category marketing`,
		Args: cobra.NoArgs,
	}
	hold, until, by := holdFlags(cmd), untilFlags(cmd), byFlag(cmd)
	reason := cmd.Flags().String("reason", "", "why, as others are to read it: a `TEXT`")
	asJSON := jsonFlag(cmd)
	return operate(cmd, func(ctx context.Context, b backend, _ []string, out io.Writer) error {
		h, err := hold()
		if err != nil {
			return err
		}
		if h.Until, err = until(); err != nil {
			return err
		}
		h.By, h.Reason = *by, *reason
		if err := warnOfCategory(ctx, b, h.Category); err != nil {
			return err
		}
		if err := b.Pause(ctx, h); err != nil {
			return badHold(err)
		}
		if !*asJSON {
			tellPaused(ctx, b, h)
			return nil
		}
		list, err := b.Pauses(ctx)
		if err != nil {
			return err
		}
		for _, p := range list {
			if p.Kind == worker.ByOperator && p.App == h.App && p.Platform == h.Platform && p.Category == h.Category {
				return printJSON(out, p)
			}
		}
		return errors.New("the pause was ended by somebody else in the meantime")
	})
}

// warnOfCategory says when a command is about a category that the configuration
// does not have: it does what it is told, and may do nothing.
func warnOfCategory(ctx context.Context, b backend, name string) error {
	if name == "" {
		return nil
	}
	configured, err := b.Categories(ctx)
	if w := names.CategoryWarning(name, configured); err == nil && w != "" {
		warnUser(w)
	}
	return err
}

// badHold makes wrong use of what is wrong with the flags.
func badHold(err error) error {
	var faults push.Faults
	switch {
	case errors.As(err, &faults):
		return misusedf("--%s: %s", strings.TrimPrefix(faults[0].Field, "/"), faults[0].Problem)
	case errors.Is(err, worker.ErrHoldOver):
		return misusedf("--until: %w", err)
	}
	return err
}

func newResume() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "End a pause: what it kept comes back at once",
		Long: `resume ends the pause that was begun with the same flags. What it kept comes back
within seconds, the first accepted first, and is held to its limits.`,
		Args: cobra.NoArgs,
	}
	hold, by, asJSON := holdFlags(cmd), byFlag(cmd), jsonFlag(cmd)
	return operate(cmd, func(ctx context.Context, b backend, _ []string, out io.Writer) error {
		h, err := hold()
		if err != nil {
			return err
		}
		h.By = *by
		there, err := b.Resume(ctx, h)
		if err == nil && !there {
			return errors.New("there is no such pause; pushpace pauses lists them")
		}
		if err != nil || !*asJSON {
			return badHold(err)
		}
		return printJSON(out, worker.Hold{App: h.App, Platform: h.Platform, Category: h.Category})
	})
}

func newPauses() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pauses",
		Short: "List what is paused: by operators, and because of what providers answer",
		Args:  cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	return operate(cmd, func(ctx context.Context, b backend, _ []string, out io.Writer) error {
		list, err := b.Pauses(ctx)
		if err != nil {
			return err
		}
		if *asJSON {
			for _, p := range list {
				if err := printJSON(out, p); err != nil {
					return err
				}
			}
			return nil
		}
		if len(list) == 0 {
			fmt.Fprintln(os.Stderr, "Nothing is paused.")
			return nil
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "KIND\tAPP\tPLATFORM\tCATEGORY\tBY\tAT\tUNTIL\tREASON")
		for _, p := range list {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Kind, quoted(p.App), orAny(string(p.Platform)), quoted(p.Category),
				quoted(p.By), orAny(stampOrNone(p.At)), orAny(stampOrNone(p.Until)), orAny(p.Reason))
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
	return timeline.Stamp(t)
}

// describePause is a pause in a line of status.
func describePause(p worker.Standing) string {
	what := []string{"everything"}
	if p.App != "" || p.Platform != "" || p.Category != "" {
		what = nil
	}
	for _, part := range []struct{ name, value string }{{"app", p.App}, {"platform", string(p.Platform)}, {"category", p.Category}} {
		if part.value != "" {
			what = append(what, part.name+" "+quoted(part.value))
		}
	}
	text := strings.Join(what, ", ") + ", by "
	if p.Kind == worker.ByOperator {
		text += quoted(p.By) + " at " + timeline.Stamp(p.At)
	} else {
		text += "what its provider answers"
	}
	if !p.Until.IsZero() {
		text += ", until " + timeline.Stamp(p.Until)
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}
