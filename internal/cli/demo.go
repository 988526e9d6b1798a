package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/demo"
)

func newDemo() *cobra.Command {
	var address string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show notifications being paced and delivered, in some ten seconds",
		Long: `demo runs workers with the shipped limits against stand-ins for the providers. It sends
what 20 users may receive in a moment: a chat floods one of them, some have dead tokens,
and one job on the queue cannot be read. It prints how many notifications were delivered,
how many limits were violated, and how many notifications were lost.

It needs only this program. With --redis it uses an empty database of that Redis and
leaves it empty; the environment's credentials and TLS settings
(PUSHPACE_REDIS__PASSWORD and others) apply.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			faults, err := demo.Run(cmd.Context(), address, asJSON, cmd.OutOrStdout())
			if err == nil && len(faults) > 0 {
				return &exitError{exitViolated, errors.New(strings.Join(faults, "\n"))}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&address, "redis", "", "`HOST:PORT` of a Redis in the place of the embedded one")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the summary as one JSON object, and nothing else")
	return cmd
}
