package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/api/apiclient"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
)

func newStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status ID",
		Short:   "Show a notification's state, and if it waits, until when and by which rule",
		Example: "  pushpace status order-4711-shipped",
		Args:    cobra.ExactArgs(1),
	}
	whose, asJSON := ownerFlags(cmd), jsonFlag(cmd)
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, args []string, out io.Writer) error {
		status, err := b.Status(ctx, whose.of(args[0]))
		if err != nil {
			return ofID(args[0], err)
		}
		if *asJSON {
			return printJSON(out, status)
		}
		if status.State == push.Waiting {
			defer warnNoWorker(ctx, b)
		}
		into := ""
		if status.Into != "" {
			other, err := b.Status(ctx, push.Ref{ID: status.Into, App: status.App, User: status.User})
			into = digestedInto(status.Into, other, err)
		}
		return printStatus(out, status, into, time.Now())
	})
}

// digestedInto returns the carrier of a digested notification and the carrier's state, in words.
func digestedInto(id string, other *inspect.Status, err error) string {
	switch {
	case errors.Is(err, push.ErrUnknownID):
		return words.Quoted(id) + ", whose record has expired"
	case err != nil:
		return words.Quoted(id) + ": " + err.Error()
	case other.State == push.Waiting:
		return words.Quoted(id) + ", which waits"
	case other.State == push.Expired:
		return words.Quoted(id) + ", which expired"
	}
	return words.Quoted(id) + ", which was " + string(other.State)
}

func printStatus(out io.Writer, s *inspect.Status, into string, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(w, name+"\t"+format+"\n", args...) }
	line("id", "%s", s.ID)
	line("state", "%s", s.State)
	if s.App != "" {
		line("app", "%s", words.Quoted(s.App))
		line("user", "%s", words.Quoted(s.User))
		line("category", "%s", words.Quoted(s.Category))
	}
	if s.State == push.Waiting {
		if s.Waits != nil {
			printWaits(line, s, now)
		}
		line("job", "%s, queue %s", words.Job(s.Job), s.Queue)
	}
	line("accepted", "%s", words.Stamp(s.Accepted))
	if !s.NotBefore.IsZero() {
		line("not before", "%s", words.Stamp(s.NotBefore))
	}
	if !s.ExpiresAt.IsZero() {
		line("expires", "%s", words.Stamp(s.ExpiresAt))
	}
	if s.Deferrals > 0 || s.Waits == nil || !s.Waits.For.HasSlot() { // else it is being deferred for the first time
		line("deferred", "%s", words.Counted(s.Deferrals, "time", "times"))
	}
	switch {
	case s.Attempts == 1:
		line("attempts", "1, at %s", words.Stamp(s.FirstAttempt))
	case s.Attempts > 1:
		line("attempts", "%d, the first at %s", s.Attempts, words.Stamp(s.FirstAttempt))
	}
	for i, o := range s.Outcomes {
		line(fmt.Sprintf("target %d", i+1), "%s", words.Target(o))
	}
	if into != "" {
		line("digested", "into %s", into)
	}
	if s.Carried > 0 {
		line("digest", "of %d: its push tells of %d others", s.Carried+1, s.Carried)
	}
	if s.Error != "" {
		line("error", "%s", s.Error)
	}
	if !s.Ended.IsZero() {
		line("ended", "%s", words.Stamp(s.Ended))
	}
	return w.Flush()
}

// printWaits prints why a notification waits, and until when.
func printWaits(line func(name, format string, args ...any), s *inspect.Status, now time.Time) {
	waits := words.Waits(s, now)
	for _, p := range waits.Keeping {
		line("paused", "%s", p)
	}
	for _, what := range waits.For {
		line("waits for", "%s", what)
	}
	if left := waits.Until.Sub(now); left > 0 {
		line("until", "%s, in %s", words.Stamp(waits.Until), words.Span(left))
	} else if !waits.Until.IsZero() {
		line("until", "%s, now", words.Stamp(waits.Until))
	}
	if s.Waits.For.HasSlot() {
		line("see", "pushpace timeline --app %s %s, for the user's limits and who is ahead", words.Quoted(s.App), words.Quoted(s.User))
	}
}
