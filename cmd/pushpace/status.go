package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/timeline"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker"
)

func newStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status ID",
		Short: "Say where a notification is, and when it waits, until when and by which rule",
		Args:  cobra.ExactArgs(1),
	}
	asJSON := jsonFlag(cmd)
	return operate(cmd, func(ctx context.Context, b backend, args []string, out io.Writer) error {
		status, err := b.Status(ctx, args[0])
		if err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		if *asJSON {
			return printJSON(out, status)
		}
		if status.State == push.Waiting {
			defer tellNoWorker(ctx, b)
		}
		return printStatus(out, status, time.Now())
	})
}

func printStatus(out io.Writer, s *worker.Status, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(w, name+"\t"+format+"\n", args...) }
	line("id", "%s", s.ID)
	line("state", "%s", s.State)
	if s.State == push.Waiting {
		switch {
		case s.Until.After(now):
			line("until", "%s, in %s", timeline.Stamp(s.Until), s.Until.Sub(now).Round(time.Second))
			line("by", "%s", timeline.Limit(s.Scope, s.Rule, 0))
			line("see", "pushpace timeline USER, for the user's limits and who is ahead")
		case s.Attempts > 0:
			line("for", "another attempt")
		}
		for _, p := range s.Paused {
			line("waits for", "%s", p)
		}
		line("job", "%s in %s", orNone(s.Job), s.Queue)
	}
	line("accepted", "%s", timeline.Stamp(s.Accepted))
	line("deferred", "%s", times(s.Deferrals))
	if s.Attempts > 0 {
		line("to be sent again", "%s, first at %s", times(s.Attempts), timeline.Stamp(s.FirstAttempt))
	}
	for i, outcome := range s.Outcomes {
		line(fmt.Sprintf("target %d", i+1), "%s", describeOutcome(outcome))
	}
	if s.Error != "" {
		line("error", "%s", s.Error)
	}
	if !s.Ended.IsZero() {
		line("ended", "%s", timeline.Stamp(s.Ended))
	}
	return w.Flush()
}

// describeOutcome says what became of a target.
func describeOutcome(o push.TargetOutcome) string {
	said := strings.TrimSpace(cmp.Or(o.Kind, "not sent") + " " + o.Reason)
	switch {
	case !o.Ambiguous:
		return said
	case o.Kind == "":
		return "may have been sent (ambiguous)"
	case o.Kind == "delivered":
		return said + ", perhaps more than once (ambiguous)"
	}
	return said + ", may have been sent (ambiguous)"
}

func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
