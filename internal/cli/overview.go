package cli

import (
	"context"
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
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

func newOverview() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "overview",
		Short: "Show incidents, waiting notifications, workers, providers and Redis",
		Long: `overview shows incidents and pauses first, then the sums, the work of the last 15 minutes,
the waiting notifications by cause (see waiting --help), the workers, the providers with
their latency of the last two minutes, the dead letters by reason, and Redis; of a Cluster
also the waiting notifications of each master. watch -n 5 pushpace overview repeats it. If
fewer than 5,000 notifications wait, all of them are read. Of more, "about" marks an
estimate from jobs drawn at random, and the oldest is the oldest of these. Through the API,
a token of some apps sees only these apps, without the counts that exist for all apps
alone. A part that Redis did not answer in time is marked as not read; the other parts
are true, and the exit status is 0.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newConfirmLoss())
	asJSON := jsonFlag(cmd)
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, _ []string, out io.Writer) error {
		o, err := b.Overview(ctx)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(out, o)
		}
		return printOverview(out, o)
	})
}

func newConfirmLoss() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "confirm-loss --at INSTANT",
		Short: "Confirm that Redis has lost data, which ends that incident",
		Long: `confirm-loss ends the incident that overview shows after Redis came back empty,
or without pauses, mutes or overrides before their end. It restores nothing: send
the notifications again, and begin the pauses and set the limits again, first. If
Redis has lost other data since, overview shows another --at, and nothing is confirmed.`,
		Args: cobra.NoArgs,
	}
	text := cmd.Flags().String("at", "", "the `INSTANT` that overview shows with the loss")
	asJSON := jsonFlag(cmd)
	byFlag(cmd)
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, _ []string, out io.Writer) error {
		at, err := time.Parse(time.RFC3339Nano, *text)
		if err != nil {
			return misusedf("--at: want the instant that overview shows with the loss, such as 2026-08-01T12:00:00.123Z")
		}
		l, err := b.ConfirmLoss(ctx, at)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(out, l)
		}
		_, err = fmt.Fprintln(os.Stderr, "confirmed:", words.Lost(&l))
		return err
	})
}

// printOverview prints the overview, the incidents first.
func printOverview(out io.Writer, o *operate.Overview) error {
	v := words.OfOverview(o, nil)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(cells ...any) {
		texts := make([]string, len(cells))
		for i, cell := range cells {
			texts[i] = orAny(fmt.Sprint(cell))
		}
		fmt.Fprintln(w, strings.Join(texts, "\t"))
	}
	for _, s := range v.Incidents {
		fmt.Fprintf(out, "wrong: %s\n", s)
	}
	if o.Lost != nil {
		fmt.Fprintln(out, "To confirm the loss: pushpace overview confirm-loss --at "+o.Lost.At.Format(time.RFC3339Nano))
	}
	fmt.Fprintf(out, "%s\n", v.Answer)
	for _, s := range v.Held {
		fmt.Fprintf(out, "held: %s\n", s)
	}
	fmt.Fprintf(out, "As of %s.\n\n", words.Stamp(o.At))
	for _, f := range v.Figures {
		if f.Hint != "" {
			f.Value = f.Hint
		}
		row(strings.ToLower(f.Name), f.Value)
	}
	if len(o.Minutes) > 0 {
		row("last 15 minutes", doneIn(o.Minutes))
	}
	if o.LateP99 > 0 {
		row("lateness p99", words.Took(o.LateP99)+" (pushes held only by a limit)")
	}
	if len(v.Waits) > 0 {
		fmt.Fprintln(w, "\nWAIT FOR\tHOW MANY\tOLDEST\tMEANS")
	}
	for _, s := range v.Waits {
		age := ""
		if !s.Oldest.IsZero() {
			age = words.Span(o.At.Sub(s.Oldest)) + " ago"
		}
		row(s.For, s.Count, age, s.Text)
	}
	if len(v.Workers) > 0 {
		fmt.Fprintln(w, "\nWORKER\tVERSION\tSINCE\tSTATE")
	}
	for _, s := range v.Workers {
		row(words.Quoted(s.ID), s.Version, words.Stamp(s.Started), s.State)
	}
	if len(o.Providers) > 0 {
		fmt.Fprintln(w, "\nPROVIDER\tIN FLIGHT\tP50\tP99\tCREDENTIAL ENDS\tSTATE")
	}
	for i := range o.Providers {
		p := words.OfProvider(o, &o.Providers[i])
		row(p.Name, p.InFlight, p.P50, p.P99, stampOrNone(p.CredentialEnds), p.State+p.Why.String())
	}
	if v.Letters.Text != "" {
		fmt.Fprintf(w, "\ndead letters\t%s\n", v.Letters.Text)
	}
	for _, t := range v.Letters.Reasons {
		fmt.Fprintf(w, "\t%s: %s\n", words.Grouped(t.Count), orAny(t.Name))
	}
	fmt.Fprintln(w)
	if len(o.Redis) > 0 && o.Redis[0].Shards != nil {
		row("REDIS", "SHARDS", "WAIT THERE", "REPLICAS", "VERSION", "STATE")
	}
	for i, s := range v.Servers {
		if i < len(o.Redis) && o.Redis[i].Shards != nil {
			if !s.WaitingAt.IsZero() {
				s.Waiting += " at " + words.Stamp(s.WaitingAt)
			}
			row(words.Quoted(s.Address), s.Shards, s.Waiting, s.Replicas, s.Version, s.State)
			continue
		}
		parts := slices.DeleteFunc([]string{s.Address, strings.TrimSuffix("version "+s.Version, "version "), s.State.String()}, func(part string) bool { return part == "" })
		row(s.Purpose, strings.Join(parts, ", "))
	}
	return w.Flush()
}

// doneIn sums the minutes up in words.
func doneIn(minutes []control.Minute) string {
	var sent, deferred int64
	ended := map[push.State]int64{}
	for _, m := range minutes {
		sent, deferred = sent+m.Sent, deferred+m.Deferred
		for state, n := range m.Ended {
			ended[state] += n
		}
	}
	text := words.Grouped(sent) + " sent, " + words.Grouped(deferred) + " put off"
	for _, state := range append(slices.Clip(store.EndStates), store.Malformed) {
		if n := ended[state]; n > 0 {
			text += ", " + words.Grouped(n) + " " + string(state)
		}
	}
	return text
}

// warnNoWorker warns on standard error if it is known that no worker runs.
func warnNoWorker(ctx context.Context, b *apiclient.Client) {
	if alive, err := b.Workers(ctx); err == nil && len(alive) == 0 {
		fmt.Fprintln(os.Stderr, words.NoWorker+".")
	}
}
