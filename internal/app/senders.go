package app

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// Senders are the senders of each app, by platform.
type Senders map[string]map[push.Platform]providers.Sender

// OpenSenders returns the Senders of all apps. The stand-ins of simulated apps record accepted
// pushes in the ledger and keep their credentials in the folder. The log reports changed
// credentials.
func OpenSenders(ctx context.Context, apps map[string]config.App, folder string, ledger *standin.Ledger, log *slog.Logger, c *Closers) (Senders, error) {
	if _, err := providers.EnvironmentProxy(); err != nil { // the fault is no single app's
		return nil, Misused(err)
	}
	var simulated config.App
	if len(simulatedApps(apps)) > 0 {
		s, err := StartStandIns(folder, func(*Platform) StandInOptions { return StandInOptions{Ledger: ledger} })
		if err != nil {
			return nil, err
		}
		c.Add(s.Close)
		simulated = s.App
	}
	all := make(Senders, len(apps))
	for name, app := range apps {
		if app.Simulated {
			app = simulated
		}
		all[name] = map[push.Platform]providers.Sender{}
		for _, p := range app.Providers() {
			s, err := PlatformOf(p.Platform).open(ctx, app)
			if err != nil {
				return nil, Misusedf("apps.%s.%s.%w", name, p.Platform, err)
			}
			all.add(name, p.Platform, s, log, c)
		}
	}
	return all, nil
}

func (all Senders) add(app string, platform push.Platform, s providers.Sender, log *slog.Logger, c *Closers) {
	if reloads, ok := s.(reloader); ok {
		log = log.With("app", app, "platform", platform)
		reloads.OnReload(func(err error) {
			if err != nil {
				log.Error("the credentials have changed and are not used: the old ones stay", "error", err)
				return
			}
			log.Info("the credentials have been renewed")
		})
	}
	c.Add(s.Close)
	all[app][platform] = s
}

// simulatedApps returns the names of the apps that send to stand-ins in this process.
func simulatedApps(apps map[string]config.App) (names []string) {
	for name, app := range apps {
		if app.Simulated {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// CheckCredentials opens the senders of every app, so that they read their files.
func CheckCredentials(ctx context.Context, cfg *config.Config) error {
	var c Closers
	_, err := OpenSenders(ctx, RealApps(cfg), "", nil, slog.New(slog.DiscardHandler), &c)
	_ = c.Close()
	return err
}

// RealApps returns the apps that are not simulated.
func RealApps(cfg *config.Config) map[string]config.App {
	real := maps.Clone(cfg.Apps)
	maps.DeleteFunc(real, func(_ string, app config.App) bool { return app.Simulated })
	return real
}
