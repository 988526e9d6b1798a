package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/app"
	"github.com/pushpace/pushpace/providers/standin"
)

// A simulation holds the command's flags.
type simulation struct {
	app         string
	ports       map[*app.Platform]*uint16
	dir, ledger string
}

func newSimulate() *cobra.Command {
	s := simulation{ports: map[*app.Platform]*uint16{}}
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Run stand-ins for the providers, and print the settings that point serve at them",
		Long: `simulate runs stand-ins for APNs, FCM and the push services of browsers on the
loopback, until SIGINT or SIGTERM. It prints settings for an app as environment
variables:

  pushpace simulate > standins.env &
  until [ -s standins.env ]; do sleep 0.1; done
  env $(cat standins.env) pushpace serve

Tokens and FIDs choose the answer: one that begins with deaddead is dead, with
baddbadd malformed, with fade0503 unavailable, with fade1503 so once. All others are
good.
A browser's is what "simulate subscription NAME" prints, and its NAME chooses.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	cmd.AddCommand(newSimulateSubscription())
	f := cmd.Flags()
	f.StringVar(&s.app, "app", "demo", "`NAME` of the app in the configuration: small letters, digits and _")
	for _, p := range app.Platforms {
		s.ports[p] = f.Uint16(p.Flag("port"), 0, p.Possessive()+" port; 0 for a free one")
	}
	f.StringVar(&s.dir, "dir", "", "`FOLDER` for the credentials; by default one that is removed at the end")
	f.StringVar(&s.ledger, "ledger", "", "`FILE` that gets one JSON line for each accepted push, appended")
	return cmd
}

// appName matches an app's name that an environment variable can hold without a configuration of
// the app.
var appName = regexp.MustCompile(`^[a-z0-9_]{1,128}$`)

func (s *simulation) run(ctx context.Context, out io.Writer) error {
	if !appName.MatchString(s.app) {
		return misusedf("--app: want small letters, digits and _")
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var c app.Closers
	err := s.serve(ctx, out, &c)
	return errors.Join(err, c.Close())
}

func (s *simulation) serve(ctx context.Context, out io.Writer, c *app.Closers) error {
	ledger, err := openLedger(s.ledger, c)
	if err != nil {
		return err
	}
	dir, err := credentialsDir(s.dir, c)
	if err != nil {
		return err
	}
	all, err := app.StartStandIns(dir, func(p *app.Platform) app.StandInOptions {
		return app.StandInOptions{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(int(*s.ports[p]))), Ledger: ledger}
	})
	if err != nil {
		return err
	}
	c.Add(all.Close)
	if _, err := io.WriteString(out, strings.Join(all.Settings(s.app), "\n")+"\n"); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "The stand-ins run. End them with Ctrl-C.")
	<-ctx.Done()
	fmt.Fprintf(os.Stderr, "The stand-ins accepted %d pushes.\n", ledger.Len())
	return ledger.Err()
}

// openLedger returns a ledger that appends to the file, if there is one.
func openLedger(file string, c *app.Closers) (*standin.Ledger, error) {
	if file == "" {
		return standin.NewLedger(func(standin.Entry) error { return nil }), nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, misusedf("--ledger: %w", err)
	}
	c.Add(f.Close)
	return standin.NewLedger(standin.Lines(f)), nil
}

// credentialsDir returns the folder, or makes a temporary one.
func credentialsDir(dir string, c *app.Closers) (string, error) {
	if dir == "" {
		dir, err := os.MkdirTemp("", "pushpace-")
		if err != nil {
			return "", err
		}
		c.Add(func() error { return os.RemoveAll(dir) })
		return dir, nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if strings.ContainsAny(dir, " \t\r\n'\"\\$*?[") {
		return "", misusedf("--dir: the settings hold the folder's path, which must have no space, quote or special character")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", misusedf("--dir: %w", err)
	}
	return dir, nil
}
