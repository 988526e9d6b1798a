package cli

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
	"time"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/apiclient"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

func newOverview() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "overview",
		Short: "Show how everything is: workers, what waits and what for, providers, Redis",
		Long: `overview shows the workers that run and what they did in the last 15 minutes, what
waits by what it waits for (see waiting --help), the providers and how long they
took in the last two, the pauses, the dead letters by reason, and Redis; of a
Cluster what waits on each master. watch -n 5 pushpace overview repeats it. Where
fewer than 5,000 wait, all of them are looked at. Of more, a count with a ~ is an
estimate from jobs drawn at random, and the oldest is that of those that were
looked at. Through the API, with a token for some apps alone, all of it is of
those apps, and what is counted for no app by itself is left out. A part that
Redis did not answer in time is "not read"; the rest is true, and the exit status
is 0.`,
		Args: cobra.NoArgs,
	}
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

// printOverview prints it, the one sentence that matters most first.
func printOverview(out io.Writer, o *operate.Overview) error {
	fmt.Fprintf(out, "%s\n\n", headline(o))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	section := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	for _, u := range o.Unread {
		if u.Shards != nil {
			section("%s\tread in part: %s", u.Part.Words(), u.Problem)
			continue
		}
		section("%s\tnot read: %s", u.Part.Words(), u.Problem)
	}
	if len(o.Unread) > 0 {
		section("")
	}
	if len(o.Workers) > 0 {
		section("WORKER\tVERSION\tSINCE\tSTATE")
		for _, s := range o.Workers {
			section("%s\t%s\t%s\t%s", words.Quoted(s.ID), orAny(s.Version), words.Stamp(s.Started), workerState(s))
		}
		section("")
	}
	if len(o.Waits) > 0 {
		section("WAIT FOR\tHOW MANY\tOLDEST")
		for _, s := range o.Waits {
			count := fmt.Sprint(s.Count)
			if s.Sampled {
				count = "~" + count
			}
			section("%s\t%s\t%s", s.For, count, orAny(age(o.At, s.Oldest)))
		}
		section("")
	}
	if !o.OldestDue.IsZero() {
		section("oldest due\tsince %s\n", words.Stamp(o.OldestDue))
	}
	if len(o.Minutes) > 0 {
		section("last 15 minutes\t%s", doneIn(o.Minutes))
		if o.LateP99 > 0 {
			section("late, of those that a limit alone held\t%s (p99)", took(o.LateP99))
		}
		section("")
	}
	if len(o.Providers) > 0 {
		section("PROVIDER\tIN FLIGHT\tP50\tP99\tSTATE")
		for _, p := range o.Providers {
			section("%s of %s\t%d\t%s\t%s\t%s", p.Platform, words.Quoted(p.App), p.InFlight, took(p.Latency.P50), took(p.Latency.P99), providerState(p, o.At))
		}
		section("")
	}
	for _, p := range o.Pauses {
		label := "paused"
		if p.Kind == pause.Trouble {
			label = "trouble"
		}
		section("%s\t%s", label, words.Pause(&p, o.At))
	}
	if l := o.Letters; l.Count > 0 {
		some := ""
		if int64(l.LookedAt) < l.Count {
			some = fmt.Sprintf(" of the %d looked at", l.LookedAt)
		}
		about := ""
		if l.Sampled {
			about = "~"
		}
		older := ""
		if l.Dropped > 0 {
			older = fmt.Sprintf(" (%d older ones were deleted)", l.Dropped)
		}
		section("dead letters\t%s%d%s", about, l.Count, older)
		for _, reason := range slices.Sorted(maps.Keys(l.Reasons)) {
			section("\t%d%s: %s", l.Reasons[reason], some, orAny(reason))
		}
	}
	if len(o.Redis) > 0 && o.Redis[0].Shards != nil {
		section("REDIS\tSHARDS\tWAIT THERE\tREPLICAS\tSTATE")
	}
	for _, n := range o.Redis {
		if n.Shards == nil {
			section("redis\t%s", nodeState(n))
			continue
		}
		section("%s\t%s\t%s\t%s\t%s", words.Quoted(n.Address), orAny(words.Shards(n.Shards)), waitThere(n), replicasOf(n), orAny(serverState(n)))
	}
	for _, n := range o.LimitsRedis {
		section("limits' redis\t%s", nodeState(n))
	}
	return w.Flush()
}

// doneIn tells what was done in the minutes.
func doneIn(minutes []control.Minute) string {
	var sent, deferred int64
	ended := map[push.State]int64{}
	for _, m := range minutes {
		sent, deferred = sent+m.Sent, deferred+m.Deferred
		for state, n := range m.Ended {
			ended[state] += n
		}
	}
	text := fmt.Sprintf("%d sent, %d put off", sent, deferred)
	for _, state := range append(slices.Clip(store.EndStates), store.Malformed) {
		if n := ended[state]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, state)
		}
	}
	return text
}

// took writes how long something takes, "-" where that is not known.
func took(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.Round(100 * time.Microsecond).String()
}

// headline says in one sentence how it is.
func headline(o *operate.Overview) string {
	waits, about := "nothing waits", ""
	if o.Sampled {
		waits, about = "nothing waits that was looked at", "about "
	}
	switch {
	case o.WaitingNotRead() != "":
		waits = "it is not known how many notifications wait"
	case o.Waiting == 1:
		waits = about + "1 notification waits"
	case o.Waiting > 1:
		waits = fmt.Sprintf("%s%d notifications wait", about, o.Waiting)
	}
	if o.Apps != nil {
		waits += " of " + strings.Join(o.Apps, ", ")
	}
	if o.DrainsIn > 0 {
		waits += ", what may leave is drained in " + roughly(o.DrainsIn) + " at the present rate"
	}
	if o.NotRead(operate.PartWorkers) != "" {
		return fmt.Sprintf("At %s: it is not known which workers run, %s.", words.Stamp(o.At), waits)
	}
	switch len(o.Workers) {
	case 0:
		return fmt.Sprintf("At %s: no worker runs, %s.", words.Stamp(o.At), waits)
	case 1:
		return fmt.Sprintf("At %s: 1 worker runs, %s.", words.Stamp(o.At), waits)
	}
	return fmt.Sprintf("At %s: %d workers run, %s.", words.Stamp(o.At), len(o.Workers), waits)
}

// roughly is how long something takes, in whole minutes or hours.
func roughly(d time.Duration) string {
	unit, name := time.Minute, "min"
	switch {
	case d < time.Minute:
		return "less than 1 min"
	case d > 2*time.Hour:
		unit, name = time.Hour, "h"
	}
	return fmt.Sprintf("about %d %s", (d+unit-1)/unit, name)
}

func workerState(s control.Snapshot) string {
	switch {
	case s.Draining:
		return "stops"
	case !s.Pulls:
		return "gets no answer when it asks Redis for jobs"
	case !s.Limits.Since.IsZero():
		return "the limits' Redis is away since " + words.Stamp(s.Limits.Since) + ": " + s.Limits.Cause
	}
	return "runs"
}

func providerState(p operate.Provider, now time.Time) string {
	text := "works"
	switch t := p.Trouble; {
	case p.Pause != "":
		text = "paused by " + string(p.Pause)
		if !p.Until.IsZero() {
			text += " until " + words.Stamp(p.Until)
		}
		if share := words.Share(t.Failures, t.Answers, string(t.Reason)); share != "" {
			text += ": " + share
		}
	case !t.Since.IsZero():
		text = fmt.Sprintf("in trouble since %s: %s", words.Stamp(t.Since), cmp.Or(words.Share(t.Failures, t.Answers, string(t.Reason)), string(t.Reason)))
		switch {
		case t.Next.IsZero():
		case t.Next.After(now):
			text += ", looked at again at " + words.Stamp(t.Next)
		default:
			text += ", looked at again now"
		}
		if t.Error != "" {
			text += ": " + t.Error
		}
	case p.Troubled > 0:
		text = "is being tried again"
	}
	if p.Troubled > 0 && p.Troubled < p.Workers {
		text += fmt.Sprintf(" (for %d of %d workers)", p.Troubled, p.Workers)
	}
	if p.Shareless > 0 {
		text += fmt.Sprintf("; %d of %d workers have no share of its concurrency, and leave what is for it on the queue", p.Shareless, p.Workers)
	}
	if !p.CredentialEnds.IsZero() {
		text += "; its credential ends at " + words.Stamp(p.CredentialEnds)
	}
	return text
}

// waitThere is how many wait in the shards of a master, and as of when where that is not now.
func waitThere(n redisconn.Node) string {
	switch {
	case n.Waiting == nil:
		return "not known"
	case n.WaitingAt.IsZero():
		return fmt.Sprint(*n.Waiting)
	}
	return fmt.Sprintf("%d at %s", *n.Waiting, words.Stamp(n.WaitingAt))
}

func replicasOf(n redisconn.Node) string {
	if n.Replicas == nil {
		return "-"
	}
	return fmt.Sprint(*n.Replicas)
}

func nodeState(n redisconn.Node) string {
	if n.Error != "" {
		return n.Address + " " + serverState(n)
	}
	return strings.TrimSuffix(n.Address+", "+serverState(n), ", ")
}

// serverState tells how a server is; "" where it answers and no more is known.
func serverState(n redisconn.Node) string {
	if n.Error != "" {
		return "does not answer: " + n.Error
	}
	var parts []string
	if n.Version != "" {
		memory := mebibytes(n.UsedMemory)
		if n.MaxMemory > 0 {
			memory += fmt.Sprintf(" of %s (%d %%)", mebibytes(n.MaxMemory), n.UsedMemory*100/n.MaxMemory)
		}
		saved := "nothing saved since its start"
		switch {
		case n.AppendOnly:
			saved = "append-only log"
		case !n.LastSave.IsZero():
			saved = "last snapshot " + words.Stamp(n.LastSave)
		}
		parts = append(parts, "version "+n.Version, memory, saved)
	}
	if n.Failing != "" {
		parts = append(parts, n.Failing)
	}
	if off := n.AheadBy.Round(time.Millisecond); off.Abs() >= 10*time.Millisecond {
		parts = append(parts, fmt.Sprintf("its clock is %s off this machine's", off))
	}
	return strings.Join(parts, ", ")
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// age is how long ago that was, "" for never.
func age(now, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return max(0, now.Sub(at)).Round(time.Second).String() + " ago"
}

// tellNoWorker says on standard error that no worker runs, where that is known.
func tellNoWorker(ctx context.Context, b *apiclient.Client) {
	if alive, err := b.Workers(ctx); err == nil && len(alive) == 0 {
		fmt.Fprintln(os.Stderr, words.NoWorker+".")
	}
}
