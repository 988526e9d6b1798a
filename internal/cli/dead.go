package cli

import (
	"context"
	"encoding/json"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/api/apiclient"
	"github.com/pushpace/pushpace/internal/cli/progress"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

func newDead() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "List, show, requeue and purge the dead letters",
		Long: `dead handles the notifications that could not be sent and are kept. A rejected
notification can never be sent as it is; an exhausted one ran out of attempts or time; a
malformed job could not be read. docs/reasons.md explains each reason.`,
		RunE: func(*cobra.Command, []string) error { return misusedf("dead: want list, show, requeue or purge") },
	}
	cmd.AddCommand(newDeadList(), newDeadShow(), newDeadRequeue(), newDeadPurge())
	return cmd
}

func newDeadShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Print a dead letter, the notification included, as JSON",
		Long: `show prints a dead letter with its notification. It prints a job that is no notification
as Base64 of its bytes on the queue; --raw prints every job so.`,
		Example: "  pushpace dead show order-4711-shipped",
		Args:    cobra.ExactArgs(1),
	}
	whose := ownerFlags(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print one line, on a terminal too")
	raw := cmd.Flags().Bool("raw", false, "with the job as it was on the queue, in Base64")
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, args []string, out io.Writer) error {
		letter, err := b.Letter(ctx, whose.of(args[0]))
		if err != nil {
			return ofID(args[0], err)
		}
		shown := struct {
			*store.Letter
			Notification *push.Notification `json:"notification,omitempty"`
		}{Letter: letter}
		if job, err := push.Decode(letter.Job); err == nil {
			shown.Notification = job.Notification
			if !*raw {
				letter.Job = nil
			}
		}
		encoder := json.NewEncoder(out)
		if progress.OnTerminal(os.Stdout) && !*asJSON {
			encoder.SetIndent("", "  ")
		}
		return encoder.Encode(shown)
	})
}
