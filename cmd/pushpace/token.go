package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/config"
)

func newToken() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make tokens for the HTTP API",
		RunE:  func(*cobra.Command, []string) error { return misusedf("token: want new NAME ROLE") },
	}
	cmd.AddCommand(newTokenNew())
	return cmd
}

func newTokenNew() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "new NAME ROLE",
		Short: "Print a new token, and its line for http.tokens",
		Long: `new makes a token for a bearer of that name, with the role producer, viewer or
operator. It prints the token, which is kept nowhere, and below it the line that
http.tokens of the configuration needs: it holds the token's hash alone.`,
		Example: `  pushpace token new shop producer`,
		Args:    cobra.ExactArgs(2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) != 1 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{string(config.Producer), string(config.Viewer), string(config.Operator)}, cobra.ShellCompDirectiveNoFileComp
		},
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := config.CheckName(args[0]); err != nil {
			return misusedf("NAME: %w", err)
		}
		var role config.Role
		if err := role.UnmarshalText([]byte(args[1])); err != nil {
			return misusedf("ROLE: %w", err)
		}
		return printToken(cmd.OutOrStdout(), args[0], role, rand.Text(), *asJSON)
	}
	return cmd
}

func printToken(out io.Writer, name string, role config.Role, token string, asJSON bool) error {
	sum := sha256.Sum256([]byte(token))
	hash := hex.EncodeToString(sum[:])
	if asJSON {
		return printJSON(out, struct {
			Token  string      `json:"token"`
			Name   string      `json:"name"`
			Role   config.Role `json:"role"`
			SHA256 string      `json:"sha256"`
		}{token, name, role, hash})
	}
	if _, err := fmt.Fprintf(out, "%s\n- {name: %q, role: %s, sha256: %q}\n", token, name, role, hash); err != nil {
		return err
	}
	if onTerminal(os.Stdout) {
		fmt.Fprintln(os.Stderr, "The first line is the token, which is shown this once; the second goes below http.tokens.")
	}
	return nil
}
