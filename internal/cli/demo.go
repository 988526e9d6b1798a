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
		Long: `demo runs workers with the shipped limits against stand-ins for the providers, and
sends them what 20 users may get in a moment: one of them overwhelmed by a chat,
some with dead tokens, and one job on the queue that cannot be read. It then says
how many were delivered, how many limits were broken, and how many were lost.

It needs nothing but this program. With --redis it works on that Redis, in an
empty database that it leaves empty; the credentials and TLS settings of the
environment (PUSHPACE_REDIS__PASSWORD and others) apply.`,
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
