package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/api/apiclient"
	"github.com/pushpace/pushpace/internal/app"
	"github.com/pushpace/pushpace/throttle"
)

// operating runs f with a client of the API that the flags and the environment choose.
func operating(cmd *cobra.Command, f func(ctx context.Context, b *apiclient.Client, args []string, out io.Writer) error) *cobra.Command {
	where := placeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		b, err := where.open(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = b.Close() }()
		err = f(ctx, b, args, cmd.OutOrStdout())
		return misuse(cmd, err)
	}
	return cmd
}

// misuse turns field errors of a request into errors of the command's flags. A usage error stays:
// it names the file and the line.
func misuse(cmd *cobra.Command, err error) error {
	var p *apiclient.Problem
	var unread throttle.Faults
	switch {
	case errors.As(err, new(*exitError)), errors.As(err, new(*app.UsageError)):
		return err
	case errors.As(err, &unread):
	case !errors.As(err, &p) || p.Status != http.StatusBadRequest:
		return err
	case len(p.Apps) > 0:
		return misusedf("there are several apps: give --app %s", strings.Join(p.Apps, " or --app "))
	default:
		for _, f := range p.Errors {
			unread.Add(strings.TrimPrefix(f.Pointer, "/"), "%s", f.Detail)
		}
	}
	var wrong []string
	for _, f := range unread {
		text := f.Problem
		if name := flagOf(cmd, f.Field); name != "" {
			text = name + ": " + text
		}
		wrong = append(wrong, text)
	}
	if len(wrong) == 0 && p.Detail != "" {
		wrong = []string{strings.ToLower(p.Detail[:1]) + strings.TrimSuffix(p.Detail[1:], ".")}
	}
	return misusedf("%s", strings.Join(wrong, "; "))
}

// flagOf returns the flag that sets the field, or the field itself.
func flagOf(cmd *cobra.Command, field string) string {
	name := strings.ReplaceAll(field, "_", "-")
	for _, name := range []string{name, strings.TrimSuffix(name, "s")} {
		if name != "" && cmd.Flags().Lookup(name) != nil {
			return "--" + name
		}
	}
	return field
}

func jsonFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "print JSON")
}

func printJSON(out io.Writer, v any) error { return json.NewEncoder(out).Encode(v) }

// printEach prints each value as a line of JSON.
func printEach[T any](out io.Writer, all []T) error {
	for _, one := range all {
		if err := printJSON(out, one); err != nil {
			return err
		}
	}
	return nil
}

// none prints a sentence in place of an empty table.
func none(sentence string) error {
	_, err := fmt.Fprintln(os.Stderr, sentence)
	return err
}

func configFlag(cmd *cobra.Command) *string {
	return cmd.Flags().StringP("config", "c", "",
		"configuration `FILE`; by default what PUSHPACE_CONFIG names, or else config.yaml in the working directory")
}
