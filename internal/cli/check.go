package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/app"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/throttle"
)

func newCheck() *cobra.Command {
	var asJSON, verbose, connect, reach bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Validate the configuration and its credentials, and print the effective values",
		Long: `check loads the configuration as serve does, with the environment, reads the credentials,
and prints the effective values in short. --verbose and --json print every value, without
secrets. It connects to nothing unless a flag asks for it.

--redis connects to Redis, prints its version and tries the limiter's commands.
--providers gets an access token from Google, connects to each app's APNs and FCM, and to
each push service of browsers that hosts names without a star. It prints the step that
fails: token, dns, connect, tls or answer. It sends no notification, so it cannot show
whether APNs and push services accept the key, and FCM the account.`,
		Args: cobra.NoArgs,
	}
	file := configFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print every key")
	cmd.Flags().BoolVar(&connect, "redis", false, "also connect to Redis, and print how it may lose keys")
	cmd.Flags().BoolVar(&reach, "providers", false, "connect to each app's providers as well, and send nothing")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, file, err := app.LoadConfig(*file)
		if err != nil {
			return err
		}
		proxy, err := providers.EnvironmentProxy()
		if err != nil {
			return misused(err)
		}
		if err := app.CheckCredentials(cmd.Context(), cfg); err != nil {
			return misusedf("%s: %w", file, err)
		}
		checked := &checked{Config: cfg, proxy: proxy.Host()}
		checked.warnings = slices.Clone(cfg.Warnings())
		if connect {
			app.NewLogger(cfg.Log, new(slog.LevelVar))
			if err := checked.connect(cmd.Context()); err != nil {
				return err
			}
		}
		fmt.Fprintln(os.Stderr, file+" is valid.")
		if reach {
			if checked.providers, err = checkProviders(cmd.Context(), cfg); err != nil {
				return err
			}
		}
		out := cmd.OutOrStdout()
		if asJSON || verbose {
			err = checked.print(out, asJSON)
		} else {
			err = checked.summarize(out)
		}
		if err != nil || !reach {
			return err
		}
		return printProviders(out, checked.providers, asJSON || verbose)
	}
	return cmd
}

// checked is a valid configuration with the results of its checks.
type checked struct {
	*config.Config
	proxy    string // the host and port of HTTPS_PROXY; "" for none
	warnings []string
	// versions are the versions of the checked Redis servers, by configuration key.
	versions config.Section
	// providers is nil without --providers.
	providers []checkedProvider
}

func (c *checked) connect(ctx context.Context) error {
	if err := c.connectTo(ctx, "redis", c.Redis, c.Limits.Redis == nil); err != nil || c.Limits.Redis == nil {
		return err
	}
	return c.connectTo(ctx, "limits.redis", *c.Limits.Redis, true)
}

// connectTo connects to one Redis, and tries the limiter's commands if it holds the timelines.
func (c *checked) connectTo(ctx context.Context, key string, cfg config.Redis, timelines bool) error {
	if cfg.Address.Mode == config.Embedded {
		fmt.Fprintln(os.Stderr, "redis embedded: there is nothing to connect to, and serve loses its data when it ends.")
		return nil
	}
	conn, err := redisconn.Open(ctx, cfg, 2)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	c.warnings = append(c.warnings, conn.Warnings...)
	version := "unknown" // where INFO is not allowed
	if info, err := conn.Client.InfoMap(ctx, "server").Result(); err == nil && info["Server"]["redis_version"] != "" {
		version = info["Server"]["redis_version"]
	}
	c.versions = append(c.versions, config.Entry{Key: key, Value: version})
	fmt.Fprintf(os.Stderr, "redis %s answers, version %s.\n", cfg.Address, version)
	if !timelines {
		return nil
	}
	limiter, err := throttle.New(conn.Client, throttle.Options{Prefix: cfg.Prefix})
	if err != nil {
		return err
	}
	defer func() { _ = limiter.Close() }()
	if err := limiter.Try(ctx); err != nil {
		return fmt.Errorf("redis %s: cannot run the limiter's commands: %w", cfg.Address, redisconn.Explain(err, cfg))
	}
	return nil
}

// summarize writes a short form of the configuration.
func (c *checked) summarize(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "redis   %s\n", c.Redis.Address)
	fmt.Fprintf(&b, "limits  %s\n", c.Limits.Default)
	for _, name := range slices.Sorted(maps.Keys(c.Limits.Categories)) {
		category := c.Limits.Categories[name]
		text := category.Policy.String()
		if !category.Exempt && !category.IsSet() {
			text = "no limit of its own"
		}
		if category.Throughput != nil {
			text += ", throughput " + category.Throughput.Words()
		}
		fmt.Fprintf(&b, "        %s: %s\n", words.Quoted(name), text)
	}
	for _, line := range week(c.Limits, time.Now()) {
		fmt.Fprintf(&b, "quiet   %s\n", line)
	}
	var apps []string
	for _, name := range slices.Sorted(maps.Keys(c.Apps)) {
		apps = append(apps, words.Quoted(name)+pretends(c.Apps[name]))
	}
	fmt.Fprintf(&b, "apps    %s\n", orAny(strings.Join(apps, ", ")))
	for _, name := range slices.Sorted(maps.Keys(c.Apps)) {
		app := c.Apps[name]
		printHook(&b, name, "dead tokens", app.DeadTokens.Webhook)
		printHook(&b, name, "outcomes", app.Outcomes.Webhook)
	}
	if c.HTTP.Listen != "" {
		fmt.Fprintf(&b, "http    %s\n", c.HTTP.Listen)
	}
	if c.proxy != "" {
		fmt.Fprintf(&b, "proxy   %s, by HTTPS_PROXY\n", c.proxy)
	}
	for _, warning := range c.warnings {
		warnUser(warning)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printHook writes the URL and the number of secrets of an app's webhook. A nil hook prints nothing.
func printHook(w io.Writer, app, reports string, hook *config.Webhook) {
	if hook == nil {
		return
	}
	keys, _ := hook.Keys() // the configuration's check has refused invalid keys
	fmt.Fprintf(w, "        %s: %s to %s, signed with %s\n", words.Quoted(app), reports, hook.URL, words.Counted(len(keys), "secret", "secrets"))
}

// pretends returns the providers through which an app reaches no device; "" if there is none.
func pretends(a config.App) string {
	if a.Simulated {
		return " (simulated: reaches no device)"
	}
	var dry []string
	for _, p := range a.Providers() {
		if p.DryRun {
			dry = append(dry, string(p.Platform))
		}
	}
	if dry == nil {
		return ""
	}
	return " (dry_run: reaches no device through " + strings.Join(dry, ", ") + ")"
}

// publicKeys returns the keys with which the sites of the apps subscribe, by app.
func (c *checked) publicKeys() (all config.Section) {
	for _, name := range slices.Sorted(maps.Keys(c.Apps)) {
		if w := c.Apps[name].WebPush; w != nil {
			if key, err := webpush.ReadKey(w.PrivateKeyFile); err == nil {
				all = append(all, config.Entry{Key: name, Value: key.Public()})
			}
		}
	}
	return all
}

// print writes every key, then the results of the checks.
func (c *checked) print(w io.Writer, asJSON bool) error {
	all := c.Shown()
	add := func(key string, value any, given bool) {
		if given {
			all = append(all, config.Entry{Key: key, Value: value})
		}
	}
	keys := c.publicKeys()
	add("public_keys", keys, keys != nil)
	add("proxy", c.proxy, c.proxy != "")
	add("versions", c.versions, c.versions != nil)
	add("warnings", c.warnings, c.warnings != nil)
	add("providers", c.providers, c.providers != nil)
	if asJSON {
		return json.NewEncoder(w).Encode(all)
	}
	text, err := yaml.Marshal(all)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}
