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
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/quiet"
)

func newCheck() *cobra.Command {
	var asJSON, verbose, connect, reach bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Validate the configuration and its credentials, and say what is effective",
		Long: `check loads the configuration as serve does, the environment included, reads the
credentials, and says in short what is effective; --verbose and --json print all
of it, without secrets. It connects to nothing, unless it is asked to.

--redis connects to Redis, tells its version and tries what the limits need.
--providers gets an access token from Google and connects to each app's APNs and
FCM, and to each push service of browsers that hosts names without a star, and
says which step fails: token, dns, connect, tls or answer. It sends no
notification; whether APNs and push services take a key, and FCM the account for
the project, the first notification shows.`,
		Args: cobra.NoArgs,
	}
	file := configFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print every key")
	cmd.Flags().BoolVar(&connect, "redis", false, "connect to Redis as well, and tell how it may lose keys")
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
		e := effectiveOf(cfg)
		e.Proxy = proxy.Host()
		e.Warnings = append(config.UnknownVariables(os.Environ()), cfg.Warnings()...)
		if connect {
			app.NewLogger(cfg.Log, new(slog.LevelVar))
			if err := e.connect(cmd.Context(), cfg); err != nil {
				return err
			}
		}
		fmt.Fprintln(os.Stderr, file+" is valid.")
		if reach {
			if e.Providers, err = checkProviders(cmd.Context(), cfg); err != nil {
				return err
			}
		}
		out := cmd.OutOrStdout()
		if asJSON || verbose {
			err = e.print(out, asJSON)
		} else {
			err = e.summarize(out, cfg)
		}
		if err != nil || !reach {
			return err
		}
		return tellProviders(out, e.Providers, asJSON || verbose)
	}
	return cmd
}

// connect connects to each Redis of the configuration, and notes what it says of
// itself.
func (e *effective) connect(ctx context.Context, cfg *config.Config) error {
	if err := e.Redis.connect(ctx, cfg.Redis, e.Limits.Redis == nil, &e.Warnings); err != nil || e.Limits.Redis == nil {
		return err
	}
	return e.Limits.Redis.connect(ctx, *cfg.Limits.Redis, true, &e.Warnings)
}

// connect connects to a Redis, and tries there what the limiter does where it
// holds the timelines.
func (e *effectiveRedis) connect(ctx context.Context, cfg config.Redis, timelines bool, warnings *[]string) error {
	if cfg.Address.Mode == config.Embedded {
		fmt.Fprintln(os.Stderr, "redis embedded: nothing is connected to, and serve keeps nothing in it.")
		return nil
	}
	conn, err := redisconn.Open(ctx, cfg, 2)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	*warnings = append(*warnings, conn.Warnings...)
	e.Version = "unknown" // where INFO is not allowed
	if info, err := conn.Client.InfoMap(ctx, "server").Result(); err == nil && info["Server"]["redis_version"] != "" {
		e.Version = info["Server"]["redis_version"]
	}
	fmt.Fprintf(os.Stderr, "redis %s answers, version %s.\n", cfg.Address, e.Version)
	if !timelines {
		return nil
	}
	limiter, err := throttle.New(conn.Client, throttle.Options{Prefix: cfg.Prefix})
	if err != nil {
		return err
	}
	defer func() { _ = limiter.Close() }()
	if err := limiter.Try(ctx); err != nil {
		return fmt.Errorf("redis %s: does not do what the limits need: %w", cfg.Address, redisconn.Explain(err, cfg))
	}
	return nil
}

// effective is the configuration as it takes effect, without secrets.
type effective struct {
	Redis  effectiveRedis          `json:"redis"`
	Worker effectiveWorker         `json:"worker"`
	Limits effectiveLimits         `json:"limits"`
	Apps   map[string]effectiveApp `json:"apps"`
	HTTP   effectiveHTTP           `json:"http"`
	Log    effectiveLog            `json:"log"`
	// Proxy is the host and port of HTTPS_PROXY; empty for none.
	Proxy    string   `json:"proxy,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Providers are there when they were reached for.
	Providers []checkedProvider `json:"providers,omitempty"`
}

type effectiveRedis struct {
	Address  string `json:"address"`
	DB       int    `json:"db"`
	Prefix   string `json:"prefix"`
	TLS      bool   `json:"tls"`
	Username string `json:"username,omitempty"`
	Password bool   `json:"password"` // whether there is one
	// Acknowledged is how many replicas must have a write; 0, none, is not told.
	Acknowledged int    `json:"acknowledged,omitempty"`
	Strict       bool   `json:"strict"`
	Version      string `json:"version,omitempty"` // of a server that was connected to
}

type effectiveWorker struct {
	Concurrency     int    `json:"concurrency"`
	Attempts        int    `json:"attempts"`
	RetryTime       string `json:"retry_time"`
	IDRetention     string `json:"id_retention"`
	DeadLetters     int    `json:"dead_letters"`
	DeadTokens      int    `json:"dead_tokens"`
	Outcomes        int    `json:"outcomes"`
	ShutdownTimeout string `json:"shutdown_timeout"`
}

type effectiveLimits struct {
	Horizon    string                     `json:"horizon"`
	OnOutage   string                     `json:"on_outage"`
	Unknown    string                     `json:"unknown_category"`
	TimeZone   string                     `json:"time_zone,omitempty"`
	Spread     string                     `json:"quiet_hours_spread"`
	MaxBooked  int                        `json:"max_booked"`
	Default    effectivePolicy            `json:"default"`
	Categories map[string]effectivePolicy `json:"categories,omitempty"`
	Quotas     map[string]effectiveQuota  `json:"quotas,omitempty"`
	Redis      *effectiveRedis            `json:"redis,omitempty"`
}

type effectivePolicy struct {
	MinGap     string      `json:"min_gap,omitempty"`
	Rates      []string    `json:"rates,omitempty"`
	QuietHours quiet.Hours `json:"quiet_hours,omitzero"`
	Exempt     bool        `json:"exempt,omitempty"`
	// Throughput is a category's over all its users, as it is written.
	Throughput string `json:"throughput,omitempty"`
}

type effectiveQuota struct {
	Quota string   `json:"quota"` // as it is written
	Apps  []string `json:"apps"`
}

// quotaText is a quota as it is written; "" for none.
func quotaText[Q fmt.Stringer](q *Q) string {
	if q == nil {
		return ""
	}
	return (*q).String()
}

type effectiveApp struct {
	Simulated bool              `json:"simulated,omitempty"`
	APNs      *effectiveAPNs    `json:"apns,omitempty"`
	FCM       *effectiveFCM     `json:"fcm,omitempty"`
	WebPush   *effectiveWebPush `json:"webpush,omitempty"`
	Webhook   bool              `json:"dead_tokens_webhook"` // whether there is one
	Outcomes  bool              `json:"outcomes_webhook"`    // the same
}

// effectiveShared bounds all workers together.
type effectiveShared struct {
	Quota       string `json:"quota,omitempty"` // as it is written
	Concurrency int    `json:"concurrency,omitempty"`
}

func sharedOf(s config.Shared) effectiveShared {
	return effectiveShared{quotaText(s.Quota), s.Concurrency}
}

type effectiveHTTP struct {
	Listen      string            `json:"listen,omitempty"`
	TLS         bool              `json:"tls"`
	Tokens      map[string]string `json:"tokens,omitempty"` // the role by the name
	TokenRates  map[string]string `json:"token_rates,omitempty"`
	MaxBody     int               `json:"max_body"`
	MaxQueue    int               `json:"max_queue"`
	MaxRequests int               `json:"max_requests"`
	ReadTimeout string            `json:"read_timeout"`
	Timeout     string            `json:"timeout"`
}

type effectiveLog struct {
	Level  string `json:"level"`
	Format string `json:"format"`
}

func effectiveOf(cfg *config.Config) *effective {
	e := &effective{
		Redis: redisOf(cfg.Redis),
		Worker: effectiveWorker{
			Concurrency: cfg.Worker.Concurrency, Attempts: cfg.Worker.Attempts,
			RetryTime:   cfg.Worker.RetryTime.String(),
			IDRetention: cfg.Worker.IDRetention.String(), DeadLetters: cfg.Worker.DeadLetters, DeadTokens: cfg.Worker.DeadTokens, Outcomes: cfg.Worker.Outcomes, ShutdownTimeout: cfg.Worker.ShutdownTimeout.String(),
		},
		Limits: effectiveLimits{
			Horizon: cfg.Limits.Horizon.String(), OnOutage: string(cfg.Limits.OnOutage), Unknown: string(cfg.Limits.UnknownCategory), TimeZone: cfg.Limits.TimeZone, Spread: cfg.Limits.QuietHoursSpread.String(), MaxBooked: cfg.Limits.MaxBooked,
			Default: policyOf(cfg.Limits.Default), Categories: map[string]effectivePolicy{}, Quotas: map[string]effectiveQuota{},
		},
		Apps: map[string]effectiveApp{},
		HTTP: httpOf(cfg.HTTP),
		Log:  effectiveLog{cfg.Log.Level.Level().String(), string(cfg.Log.Format)},
	}
	for name, c := range cfg.Limits.Categories {
		policy := policyOf(c.Policy)
		policy.Throughput = quotaText(c.Throughput)
		e.Limits.Categories[name] = policy
	}
	for name, q := range cfg.Limits.Quotas {
		e.Limits.Quotas[name] = effectiveQuota{q.Quota.String(), q.Apps}
	}
	if cfg.Limits.Redis != nil {
		own := redisOf(*cfg.Limits.Redis)
		e.Limits.Redis = &own
	}
	for name, app := range cfg.Apps {
		e.Apps[name] = appOf(app)
	}
	return e
}

func redisOf(r config.Redis) effectiveRedis {
	return effectiveRedis{
		Address: r.Address.String(), DB: r.DB, Prefix: r.Prefix, TLS: r.TLS.Enabled,
		Username: r.Username, Password: r.Password != "", Acknowledged: r.Acknowledged, Strict: r.Strict,
	}
}

func policyOf(p throttle.Policy) effectivePolicy {
	e := effectivePolicy{Exempt: p.Exempt, QuietHours: p.Quiet}
	if p.MinGap > 0 {
		e.MinGap = p.MinGap.String()
	}
	for _, r := range p.Rates {
		e.Rates = append(e.Rates, r.String())
	}
	return e
}

func httpOf(h config.HTTP) effectiveHTTP {
	e := effectiveHTTP{
		Listen: string(h.Listen), TLS: h.TLS.Enabled(), Tokens: map[string]string{}, TokenRates: map[string]string{}, MaxBody: h.MaxBody, MaxQueue: h.MaxQueue,
		MaxRequests: h.MaxRequests, ReadTimeout: h.ReadTimeout.String(), Timeout: h.Timeout.String(),
	}
	for _, t := range h.Tokens {
		e.Tokens[t.Name] = string(t.Role)
		if t.Rate != nil {
			e.TokenRates[t.Name] = t.Rate.String()
		}
	}
	return e
}

func appOf(a config.App) effectiveApp {
	e := effectiveApp{Simulated: a.Simulated, Webhook: a.DeadTokens.Webhook != nil, Outcomes: a.Outcomes.Webhook != nil}
	for _, p := range a.Providers() {
		effectives[p.Platform](a, &e)
	}
	return e
}

// summarize writes the configuration in a few lines.
func (e *effective) summarize(w io.Writer, cfg *config.Config) error {
	apps := slices.Sorted(maps.Keys(e.Apps))
	for i, name := range apps {
		apps[i] = words.Quoted(name)
		if e.Apps[name].Simulated {
			apps[i] += " (simulated)"
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "redis   %s\n", e.Redis.Address)
	fmt.Fprintf(&b, "limits  %s\n", app.Describe(cfg.Limits))
	for _, line := range week(cfg.Limits, time.Now()) {
		fmt.Fprintf(&b, "quiet   %s\n", line)
	}
	fmt.Fprintf(&b, "apps    %s\n", orAny(strings.Join(apps, ", ")))
	if e.HTTP.Listen != "" {
		fmt.Fprintf(&b, "http    %s\n", e.HTTP.Listen)
	}
	if e.Proxy != "" {
		fmt.Fprintf(&b, "proxy   %s, by HTTPS_PROXY\n", e.Proxy)
	}
	for _, warning := range e.Warnings {
		warnUser(warning)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (e *effective) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(e)
	}
	text, err := yaml.Marshal(e)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}
