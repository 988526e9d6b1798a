package app

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/internal/base/filewatch"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/push"
)

// A configured is the configuration that serve runs with and reloads.
type configured struct {
	file, only string
	roles      roles
	started    *config.Config
	watch      *filewatch.Watch
	level      slog.LevelVar
	outcome    string // of the last reload
	last       atomic.Pointer[reloaded]
	empty      bool // the file was empty at the start: the environment has all keys
}

// A reloaded is the result of the last reload, the configuration in force, and its time.
type reloaded struct {
	refused error // nil if the new configuration was applied
	at      time.Time
	config  *config.Config
}

// lastReload reports whether the last reload succeeded, and when a configuration was last applied,
// the start included, for metrics.
func (c *configured) lastReload() (ok bool, at time.Time) {
	last := c.last.Load()
	return last.refused == nil, last.at
}

// newConfigured loads the configuration that the flags of serve ask for.
func newConfigured(flag, only string) (*configured, error) {
	file, err := FindConfig(flag)
	if err != nil {
		return nil, err
	}
	c := &configured{file: file, only: only, watch: filewatch.New(file), empty: emptied(file)}
	c.started, c.roles, err = c.load()
	c.last.Store(&reloaded{at: time.Now(), config: c.started})
	return c, err
}

// emptied reports whether the file is empty.
func emptied(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Size() == 0
}

// load reads the file, and checks that serve can start with it.
func (c *configured) load() (*config.Config, roles, error) {
	cfg, err := config.Load(c.file, os.Environ())
	if err != nil {
		return nil, roles{}, Misused(err)
	}
	r, err := rolesOf(c.only, cfg)
	switch {
	case err != nil:
		return nil, r, err
	case r.worker && len(cfg.Apps) == 0:
		return nil, r, Misusedf("%s: apps: there is none to send for", c.file)
	case !r.worker && !r.api:
		return nil, r, Misusedf("%s: http.listen: is missing, and --only api needs it", c.file)
	}
	return cfg, r, nil
}

// A livePart is a part of the configuration that takes effect while serve runs.
type livePart struct {
	keys   []string // with all keys below them
	except []string // keys that are not part of it
	// fits reports whether the part can change without a restart; nil if it always can.
	fits func(*config.Config) bool
	take func(*config.Config)
	// inForce is the configuration that was taken last.
	inForce *config.Config
}

// quotaKeys returns the configuration keys of the limits of all workers.
func quotaKeys() []string {
	keys := []string{"limits.quotas", "limits.categories.*.throughput.*"}
	for _, p := range push.Platforms() {
		keys = append(keys, "apps.*."+string(p)+".quota.*")
	}
	return keys
}

// live returns the parts of the configuration that take effect while serve runs. All
// other parts need a restart.
func (s *System) live(c *configured) []*livePart {
	horizon := c.started.Limits.Horizon
	return []*livePart{
		{
			keys:   []string{"limits.default", "limits.categories", "limits.unknown_category"},
			except: []string{"limits.categories.*.throughput"},
			// quiet hours need the time zone, and a change of it needs a restart
			fits: func(cfg *config.Config) bool {
				return fitHorizon(cfg.Limits, horizon) && (!cfg.Limits.Quiet() || c.started.Limits.TimeZone != "")
			},
			take: func(cfg *config.Config) {
				general := cfg.Limits.General()
				general.Night = c.started.Limits.General().Night
				s.limits.SetBase(general, cfg.Limits.Policies())
				s.limits.SetUnknown(cfg.Limits.UnknownCategory)
				if s.metrics != nil {
					s.metrics.SetCategories(slices.Collect(maps.Keys(cfg.Limits.Categories)))
				}
			},
			inForce: c.started,
		},
		{
			// a new or removed quota changes the counted pushes
			keys:    quotaKeys(),
			take:    s.quotas.Take,
			inForce: c.started,
		},
		{
			keys:    []string{"limits.device.*"},
			take:    s.guardDevices,
			inForce: c.started,
		},
		{
			keys:    []string{"log.level"},
			take:    func(cfg *config.Config) { c.level.Set(cfg.Log.Level.Level()) },
			inForce: c.started,
		},
		{
			keys: []string{"http.tokens"},
			// without tokens, everyone who reaches the API may do everything, also through a
			// proxy on this machine: a lost line must not open an API that had tokens
			fits:    func(cfg *config.Config) bool { return len(cfg.HTTP.Tokens) > 0 },
			take:    func(cfg *config.Config) { s.tokens.Set(cfg.HTTP.Tokens) },
			inForce: c.started,
		},
	}
}

// fitHorizon reports whether timelines with the horizon can hold the limits.
func fitHorizon(l config.Limits, horizon time.Duration) bool {
	for _, p := range append(slices.Collect(maps.Values(l.Policies())), l.Default) {
		if p.Validate(horizon) != nil {
			return false
		}
	}
	return true
}

// reloadEvery is the interval of checks for a changed file.
const reloadEvery = time.Second

// keep reloads the configuration at each hangup, and when its file has changed,
// until ctx ends.
func (c *configured) keep(ctx context.Context, hangups <-chan os.Signal, live []*livePart, log *slog.Logger) {
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	changed := make(chan struct{}, 1)
	watching.Go(func() {
		c.watch.Run(ctx, reloadEvery, func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	})
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			c.reload(ctx, live, log, true)
		case <-changed: // a hangup may have reloaded the file already
			c.reload(ctx, live, log, false)
		}
	}
}

// reload applies the new configuration, or refuses it. The log reports the result; of an
// unchanged file only if the reload was requested.
func (c *configured) reload(ctx context.Context, live []*livePart, log *slog.Logger, asked bool) {
	cfg, taken, waiting, err := c.renew(ctx, live)
	outcome := listed(waiting)
	if err != nil {
		outcome = err.Error()
		last := *c.last.Load()
		last.refused = err
		c.last.Store(&last)
	} else {
		c.last.Store(&reloaded{at: time.Now(), config: cfg})
	}
	if !asked && len(taken) == 0 && outcome == c.outcome {
		return
	}
	c.outcome = outcome
	if err != nil {
		log.Error("the configuration is not reloaded: the old one stays", "error", err)
		return
	}
	log.Info("the configuration is reloaded", "changed", cmp.Or(listed(taken), "none"))
	if len(waiting) > 0 {
		log.Warn("these keys take effect at the next start", "keys", outcome)
	}
	if changed := slices.Concat(taken, waiting); slices.ContainsFunc(changed, within("limits")) || slices.ContainsFunc(changed, within("apps")) {
		warn(log, cfg.Warnings())
	}
}

// listed returns changes in one line.
func listed(changes []config.Change) string {
	texts := make([]string, len(changes))
	for i, c := range changes {
		texts[i] = c.String()
	}
	return strings.Join(texts, ", ")
}

// within matches the changes at a key or below it.
func within(key string) func(config.Change) bool {
	return func(c config.Change) bool { return config.Within(c.Key, key) }
}

// renew applies the live parts of the new configuration. It returns the applied keys, and the
// changed keys that need a restart.
func (c *configured) renew(ctx context.Context, live []*livePart) (cfg *config.Config, taken, waiting []config.Change, err error) {
	if emptied(c.file) && !c.empty { // a full disk may have truncated it: with the environment it could be valid, without any limit
		return nil, nil, nil, Misusedf("%s: is empty", c.file)
	}
	if cfg, _, err = c.load(); err != nil {
		return nil, nil, nil, err
	}
	waiting = config.Changes(c.started, cfg)
	if c.roles.worker && slices.ContainsFunc(waiting, within("apps")) {
		if err := CheckCredentials(ctx, cfg); err != nil {
			return nil, nil, nil, Misusedf("%s: %w", c.file, err)
		}
	}
	for _, part := range live {
		waiting = slices.DeleteFunc(waiting, func(change config.Change) bool { return part.has(change.Key) })
		mine := slices.DeleteFunc(config.Changes(part.inForce, cfg), func(change config.Change) bool { return !part.has(change.Key) })
		if part.fits != nil && !part.fits(cfg) {
			waiting = append(waiting, mine...)
			continue
		}
		if len(mine) > 0 {
			part.take(cfg)
			part.inForce = cfg
			taken = append(taken, mine...)
		}
	}
	return cfg, taken, waiting, nil
}

// has reports whether the key belongs to the part.
func (p *livePart) has(key string) bool {
	within := func(other string) bool { return config.Within(key, other) }
	return slices.ContainsFunc(p.keys, within) && !slices.ContainsFunc(p.except, within)
}
