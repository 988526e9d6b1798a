package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/apiclient"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/push"
)

func newDeadRequeue() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "requeue ID [ID …] | requeue --all [--reason REASON …] [--expect N]",
		Short: "Put dead letters back on their queue, with a new budget of attempts",
		Long: `requeue puts the dead letters with these IDs back on their queue. With --all it
does so with those that match every flag that is given: it counts them first, and
asks on the terminal, or goes ahead if there are as many as --expect says.
Breaking off is safe: do it again for the rest.`,
		Example: `  pushpace dead requeue order-4711-shipped
  pushpace dead requeue --all --reason unknown_app --since 1h --expect 143`,
	}
	all := cmd.Flags().Bool("all", false, "all that match the other flags, instead of some by their IDs")
	selection := &letterSelection{}
	f := cmd.Flags()
	f.StringVar(&selection.app, "app", "", "those for the `APP`")
	f.StringVar(&selection.category, "category", "", "those of the `CATEGORY`")
	f.StringVar(&selection.reason, "reason", "", "those with the `REASON` that dead list shows")
	f.DurationVar(&selection.since, "since", 0, "those that ended within the last `DURATION`, such as 2h")
	completeApps(cmd)
	completeCategories(cmd)
	confirmation, asJSON := expectFlag(cmd), jsonFlag(cmd)
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, ids []string, out io.Writer) error {
		switch {
		case selection.since < 0:
			return misusedf("--since: want a positive duration such as 2h")
		case *all && len(ids) > 0:
			return misusedf("--all: IDs name some; give one or the other")
		case *all:
			return requeueAll(ctx, b, *selection, confirmation, out, *asJSON)
		case len(ids) == 0:
			return misusedf("dead requeue: want IDs, or --all with which")
		case *selection != letterSelection{} || f.Changed("expect"):
			return misusedf("--app, --category, --reason, --since and --expect are for --all")
		}
		return eachLetter((*apiclient.Client).Requeue, "requeued", asJSON)(ctx, b, ids, out)
	})
}

// A letterSelection selects dead letters. Each field matches any when it is zero.
type letterSelection struct {
	app, category, reason string
	since                 time.Duration
}

func (s letterSelection) matches(l *push.Letter, now time.Time) bool {
	return (s.app == "" || s.app == l.App) && (s.category == "" || s.category == l.Category) && (s.reason == "" || s.reason == l.Reason) &&
		(s.since == 0 || now.Sub(l.At) <= s.since)
}

// requeueAll requeues what is selected, once its number is confirmed.
func requeueAll(ctx context.Context, b *apiclient.Client, s letterSelection, c *confirmation, out io.Writer, asJSON bool) error {
	var ids []string
	seen, now := map[string]bool{}, time.Now()
	err := b.Letters(ctx, func(l *push.Letter) bool {
		if !seen[l.ID] && s.matches(l, now) {
			seen[l.ID] = true
			ids = append(ids, l.ID)
		}
		return true
	})
	if err != nil {
		return err
	}
	if err := c.confirm(len(ids), "dead letters match", "requeue them"); err != nil {
		return err
	}
	done, err := operate.InPages(ctx, ids, b.RequeueEach)
	return tellBulk(done, out, asJSON, "requeued", err)
}
