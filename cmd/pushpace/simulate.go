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
	"github.com/pushpace/pushpace/providers/apns/apnstest"
	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/throttle"
)

// A simulation is what the command's flags say.
type simulation struct {
	app               string
	apnsPort, fcmPort uint16
	dir, ledger       string
	latency           standin.Latency
	quota             string
	perDevice         []string
	admin             bool
	apnsFault         string
	fcmFault          string
	retryAfter        time.Duration
}

func newSimulate() *cobra.Command {
	var s simulation
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Run stand-ins for APNs and FCM, and print the settings that point serve at them",
		Long: `simulate runs stand-ins for APNs and FCM on the loopback, until SIGINT or SIGTERM.
It prints settings for an app as environment variables:

  pushpace simulate > standins.env &
  env $(cat standins.env) pushpace serve

Tokens choose the answer: one that begins with deaddead is dead, with baddbadd
malformed, with fade0503 unavailable, with fade1503 so once. All others are good.

--apns-fault and --fcm-fault have every push answered with a status, such as 429
or 503, or meet trouble with the connection: close, goaway, goaway-unprocessed,
black-hole, page (a proxy's), drain. With --admin, both can be told so while they
run, and for one token:

  curl -X PUT -d '{"status":503,"retry_after":"30s"}' URL/always
  curl -X DELETE URL/always
  curl -X PUT -d '{"token":"00fc","answers":[{"status":410},{"fault":"close"}]}' URL/script
  curl URL/counters
  curl -X POST URL/expire-tokens`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringVar(&s.app, "app", "demo", "`NAME` of the app in the configuration: small letters, digits and _")
	f.Uint16Var(&s.apnsPort, "apns-port", 0, "APNs' port; 0 for a free one")
	f.Uint16Var(&s.fcmPort, "fcm-port", 0, "FCM's port; 0 for a free one")
	f.StringVar(&s.dir, "dir", "", "`FOLDER` for the credentials; by default one that is removed at the end")
	f.StringVar(&s.ledger, "ledger", "", "`FILE` that gets one JSON line for each accepted push, appended")
	durationVar(f, &s.latency.Typical, "latency", "how long most answers take")
	durationVar(f, &s.latency.Tail, "tail", "how long the slow answers take at most")
	f.Float64Var(&s.latency.TailShare, "tail-share", 0.01, "the share of slow answers, 0 to 1, when --tail is given")
	f.StringVar(&s.quota, "fcm-quota", "", "what FCM takes for the project, such as 600000/1m, in minutes that begin when they like; more is answered 429")
	f.StringSliceVar(&s.perDevice, "fcm-device-quota", nil, "what FCM takes for each device, such as 240/1m,5000/1h")
	f.StringVar(&s.apnsFault, "apns-fault", "", "the `STATUS or trouble` that every push to APNs meets")
	f.StringVar(&s.fcmFault, "fcm-fault", "", "the `STATUS or trouble` that every push to FCM meets")
	for _, flag := range []string{"apns-fault", "fcm-fault"} {
		complete(cmd, flag, "close", "goaway", "goaway-unprocessed", "black-hole", "page", "drain")
	}
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
	var f fcmtest.Options
	var err error
	if s.quota != "" {
		if f.ProjectQuota, err = quota("--fcm-quota", s.quota); err != nil {
			return err
		}
	}
	for _, text := range s.perDevice {
		q, err := quota("--fcm-device-quota", text)
		if err != nil {
			return err
		}
		f.DeviceQuotas = append(f.DeviceQuotas, q)
	}
	if s.retryAfter < 0 {
		return misusedf("--retry-after: want a duration of 0 or more")
	}
	toAPNs, err := trouble("--apns-fault", s.apnsFault, s.retryAfter)
	if err != nil {
		return err
	}
	toFCM, err := trouble("--fcm-fault", s.fcmFault, s.retryAfter)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var c closers
	err = s.serve(ctx, out, f, toAPNs, toFCM, &c)
	return errors.Join(err, c.close())
}

func (s *simulation) serve(ctx context.Context, out io.Writer, f fcmtest.Options, toAPNs, toFCM *standin.Answer, c *closers) error {
	ledger, err := openLedger(s.ledger, c)
	if err != nil {
		return err
	}
	dir, err := credentialsDir(s.dir, c)
	if err != nil {
		return err
	}
	a := apnstest.Options{Address: loopback(s.apnsPort), Latency: s.latency, Ledger: ledger}
	f.Address, f.Latency, f.Ledger = loopback(s.fcmPort), s.latency, ledger
	if s.admin {
		a.Admin, f.Admin = loopback(0), loopback(0)
	}
	servers, err := startStandIns(dir, a, f)
	if err != nil {
		return err
	}
	c.add(servers.close)
	if toAPNs != nil {
		servers.apns.RespondAlways(*toAPNs)
	}
	if toFCM != nil {
		servers.fcm.RespondAlways(*toFCM)
	}
	if s.admin {
		fmt.Fprintf(os.Stderr, "APNs is controlled at %s\nFCM is controlled at %s\n", servers.apns.AdminURL(), servers.fcm.AdminURL())
	}
	if _, err := io.WriteString(out, variables(s.app, servers.app)); err != nil {
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
		fmt.Fprintf(&b, "PUSHPACE_APPS__%s__%s=%s\n", strings.ToUpper(app), key, value)
	}
	set("SIMULATED", "false")
	set("APNS__TOPIC", a.APNs.Topic)
	set("APNS__ENDPOINT", a.APNs.Endpoint)
	set("APNS__ROOT_CA_FILE", a.APNs.RootCAFile)
	set("APNS__KEY_FILE", a.APNs.KeyFile)
	set("APNS__KEY_ID", a.APNs.KeyID)
	set("APNS__TEAM_ID", a.APNs.TeamID)
	set("FCM__CREDENTIALS_FILE", a.FCM.CredentialsFile)
	set("FCM__ENDPOINT", a.FCM.Endpoint)
	set("FCM__ROOT_CA_FILE", a.FCM.RootCAFile)
	return b.String()
}
