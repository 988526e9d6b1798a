package main

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
	"time"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

// A simulation is what the command's flags say.
type simulation struct {
	app         string
	ports       map[*platform]*uint16
	dir, ledger string
	latency     standin.Latency
	quota       string
	perDevice   []string
	admin       bool
	faults      map[*platform]*string
	retryAfter  time.Duration
}

func newSimulate() *cobra.Command {
	s := simulation{ports: map[*platform]*uint16{}, faults: map[*platform]*string{}}
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Run stand-ins for the providers, and print the settings that point serve at them",
		Long: `simulate runs stand-ins for APNs, FCM and the push services of browsers on the
loopback, until SIGINT or SIGTERM. It prints settings for an app as environment
variables:

  pushpace simulate > standins.env &
  env $(cat standins.env) pushpace serve

Tokens choose the answer: one that begins with deaddead is dead, with baddbadd
malformed, with fade0503 unavailable, with fade1503 so once. All others are good.
A browser's is what "simulate subscription NAME" prints, and its NAME chooses.

--apns-fault, --fcm-fault and --webpush-fault have every push answered with a
status, such as 429 or 503, or meet trouble with the connection: close, goaway,
goaway-unprocessed, black-hole, page (a proxy's), drain. With --admin, the
stand-ins can be told so while they run, and for one token:

  curl -X PUT -d '{"status":503,"retry_after":"30s"}' URL/always
  curl -X DELETE URL/always
  curl -X PUT -d '{"token":"00fc","answers":[{"status":410},{"fault":"close"}]}' URL/script
  curl URL/counters
  curl -X POST URL/expire-tokens`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	cmd.AddCommand(newSimulateSubscription())
	f := cmd.Flags()
	f.StringVar(&s.app, "app", "demo", "`NAME` of the app in the configuration: small letters, digits and _")
	for _, p := range platforms {
		s.ports[p] = f.Uint16(p.flag("port"), 0, p.whose()+" port; 0 for a free one")
		s.faults[p] = f.String(p.flag("fault"), "", "the `STATUS or trouble` that every push to "+push.PlatformTitle(p.name)+" meets")
		complete(cmd, p.flag("fault"), "close", "goaway", "goaway-unprocessed", "black-hole", "page", "drain")
	}
	f.StringVar(&s.dir, "dir", "", "`FOLDER` for the credentials; by default one that is removed at the end")
	f.StringVar(&s.ledger, "ledger", "", "`FILE` that gets one JSON line for each accepted push, appended")
	durationVar(f, &s.latency.Typical, "latency", "how long most answers take")
	durationVar(f, &s.latency.Tail, "tail", "how long the slow answers take at most")
	f.Float64Var(&s.latency.TailShare, "tail-share", 0.01, "the share of slow answers, 0 to 1, when --tail is given")
	f.StringVar(&s.quota, "fcm-quota", "", "what FCM takes for the project, such as 600000/1m, in minutes that begin when they like; more is answered 429")
	f.StringSliceVar(&s.perDevice, "fcm-device-quota", nil, "what FCM takes for each device, such as 240/1m,5000/1h")
	durationVar(f, &s.retryAfter, "retry-after", "what such a status asks to wait; 0 for nothing")
	f.BoolVar(&s.admin, "admin", false, "serve the stand-ins' controls on the loopback, and print their URLs to standard error")
	return cmd
}

// appName is what a variable's name can stand for without a configuration that
// has the app.
var appName = regexp.MustCompile(`^[a-z0-9_]{1,128}$`)

func (s *simulation) run(ctx context.Context, out io.Writer) error {
	if !appName.MatchString(s.app) {
		return misusedf("--app: want small letters, digits and _")
	}
	if l := s.latency; l.Typical < 0 || l.Tail < 0 || l.TailShare < 0 || l.TailShare > 1 {
		return misusedf("--latency, --tail, --tail-share: want durations, and a share from 0 to 1")
	}
	var o standInOptions
	var err error
	if s.quota != "" {
		if o.projectQuota, err = quota("--fcm-quota", s.quota); err != nil {
			return err
		}
	}
	for _, text := range s.perDevice {
		q, err := quota("--fcm-device-quota", text)
		if err != nil {
			return err
		}
		o.deviceQuotas = append(o.deviceQuotas, q)
	}
	if s.retryAfter < 0 {
		return misusedf("--retry-after: want a duration of 0 or more")
	}
	always := map[push.Platform]*standin.Answer{}
	for _, p := range platforms {
		if always[p.name], err = trouble("--"+p.flag("fault"), *s.faults[p], s.retryAfter); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var c closers
	err = s.serve(ctx, out, o, always, &c)
	return errors.Join(err, c.close())
}

func (s *simulation) serve(ctx context.Context, out io.Writer, o standInOptions, always map[push.Platform]*standin.Answer, c *closers) error {
	ledger, err := openLedger(s.ledger, c)
	if err != nil {
		return err
	}
	dir, err := credentialsDir(s.dir, c)
	if err != nil {
		return err
	}
	o.latency, o.ledger = s.latency, ledger
	if s.admin {
		o.admin = loopback(0)
	}
	all, err := startStandIns(dir, func(p *platform) standInOptions {
		o.address = loopback(*s.ports[p])
		return o
	})
	if err != nil {
		return err
	}
	c.add(all.close)
	for _, p := range platforms {
		server := all.servers[p.name]
		if answer := always[p.name]; answer != nil {
			server.RespondAlways(*answer)
		}
		if s.admin {
			fmt.Fprintf(os.Stderr, "%s is controlled at %s\n", push.PlatformTitle(p.name), server.AdminURL())
		}
	}
	if _, err := io.WriteString(out, variables(s.app, all.app)); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "The stand-ins run. End them with Ctrl-C.")
	<-ctx.Done()
	fmt.Fprintf(os.Stderr, "The stand-ins accepted %d pushes.\n", ledger.Len())
	return ledger.Err()
}

func loopback(port uint16) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))) }

func quota(flag, text string) (fcmtest.Quota, error) {
	r, err := throttle.ParseRate(text)
	if err != nil {
		return fcmtest.Quota{}, misusedf("%s: %w", flag, err)
	}
	return fcmtest.Quota{Count: r.Count, Per: r.Period}, nil
}

// openLedger returns a ledger that appends to the file, if there is one.
func openLedger(file string, c *closers) (*standin.Ledger, error) {
	if file == "" {
		return standin.NewLedger(func(standin.Entry) error { return nil }), nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, misusedf("--ledger: %w", err)
	}
	c.add(f.Close)
	return standin.NewLedger(standin.Lines(f)), nil
}

// credentialsDir returns the folder, or a new one that is removed at the end.
func credentialsDir(dir string, c *closers) (string, error) {
	if dir == "" {
		dir, err := os.MkdirTemp("", "pushpace-")
		if err != nil {
			return "", err
		}
		c.add(func() error { return os.RemoveAll(dir) })
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

// variables are the settings of the app as the configuration reads them from
// the environment, one a line.
func variables(app string, a config.App) string {
	var b strings.Builder
	set := func(key, value string) {
		fmt.Fprintf(&b, "PUSHPACE_APPS__%s__%s=%s\n", strings.ToUpper(app), strings.ToUpper(key), value)
	}
	set("simulated", "false")
	for _, p := range a.Providers() {
		for _, s := range platformOf(p.Platform).settings(a) {
			set(string(p.Platform)+"__"+s[0], s[1])
		}
	}
	return b.String()
}
