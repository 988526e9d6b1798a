package cli

import (
	"context"
	"encoding/json"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/api/apiclient"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

func newDead() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "Look after the dead letters: what was rejected, exhausted or malformed",
		Long: `dead looks after what could not be sent and is kept. A notification was rejected
when it can never be taken as it is, and exhausted when its attempts or its time
ran out; a malformed job could not be read. docs/reasons.md says what to do.`,
		RunE: func(*cobra.Command, []string) error { return misusedf("dead: want list, show, requeue or purge") },
	}
	cmd.AddCommand(newDeadList(), newDeadShow(), newDeadRequeue(), newDeadPurge())
	return cmd
}

func newDeadShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Print a dead letter, the notification included, as JSON",
		Long: `show prints a dead letter with its notification. A job that is no notification it
prints as it was on the queue, in Base64; --raw has it print every one.`,
		Example: "  pushpace dead show order-4711-shipped",
		Args:    cobra.ExactArgs(1),
	}
	whose := whoseFlags(cmd)
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
		if onTerminal(os.Stdout) && !*asJSON {
			encoder.SetIndent("", "  ")
		}
		return encoder.Encode(shown)
	})
}
