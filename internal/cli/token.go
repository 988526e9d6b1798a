package cli

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/cli/progress"
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
		Use:   "new NAME ROLE [--app NAME]...",
		Short: "Print a new token, and its line for http.tokens",
		Long: `new makes a token of this name with the role producer, viewer or operator, for all apps, or
with --app for some apps alone. It prints the token, which is stored nowhere, and the line
for http.tokens of the configuration, which holds only the token's hash.`,
		Example: `  pushpace token new shop producer
  pushpace token new ada operator --app shop --app kiosk`,
		Args: cobra.ExactArgs(2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) != 1 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{string(config.Producer), string(config.Viewer), string(config.Operator)}, cobra.ShellCompDirectiveNoFileComp
		},
	}
	asJSON := jsonFlag(cmd)
	apps := cmd.Flags().StringArray("app", nil, "make the token for the `APP` alone; repeatable")
	complete(cmd, "app")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := config.CheckName(args[0]); err != nil {
			return misusedf("NAME: %w", err)
		}
		role := config.Role(args[1])
		if err := config.CheckRole(role); err != nil {
			return misusedf("ROLE: %w", err)
		}
		for i, app := range *apps {
			if err := config.CheckName(app); err != nil {
				return misusedf("--app: %w", err)
			}
			if slices.Contains((*apps)[:i], app) {
				return misusedf("--app: %q is given twice", app)
			}
		}
		return printToken(cmd.OutOrStdout(), config.Token{Name: args[0], Role: role, Apps: *apps}, rand.Text(), *asJSON)
	}
	return cmd
}

func printToken(out io.Writer, of config.Token, token string, asJSON bool) error {
	sum := sha256.Sum256([]byte(token))
	hash := hex.EncodeToString(sum[:])
	if asJSON {
		return printJSON(out, struct {
			Token  string      `json:"token"`
			Name   string      `json:"name"`
			Role   config.Role `json:"role"`
			Apps   []string    `json:"apps,omitempty"`
			SHA256 string      `json:"sha256"`
		}{token, of.Name, of.Role, of.Apps, hash})
	}
	apps := ""
	if of.Apps != nil {
		quoted := make([]string, len(of.Apps))
		for i, app := range of.Apps {
			quoted[i] = strconv.Quote(app)
		}
		apps = "apps: [" + strings.Join(quoted, ", ") + "], "
	}
	if _, err := fmt.Fprintf(out, "%s\n- {name: %q, role: %s, %ssha256: %q}\n", token, of.Name, of.Role, apps, hash); err != nil {
		return err
	}
	if progress.OnTerminal(os.Stdout) {
		fmt.Fprintln(os.Stderr, "The first line is the token, which is shown this once; the second goes below http.tokens.")
	}
	return nil
}
