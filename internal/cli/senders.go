package cli

import (
	"context"
	"log/slog"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// senders are each app's, by platform.
type senders map[string]map[push.Platform]providers.Sender

// openSenders returns the senders of all apps. The stand-ins that simulated
// apps need record what they accept in the ledger, and have their credentials in the
// folder. Credentials that change are told of in the log.
func openSenders(ctx context.Context, apps map[string]config.App, folder string, ledger *standin.Ledger, log *slog.Logger, c *closers) (senders, error) {
	if _, err := providers.EnvironmentProxy(); err != nil { // which is no single app's fault
		return nil, misused(err)
	}
	var simulated config.App
	if anySimulated(apps) {
		s, err := startStandIns(folder, func(*platform) standInOptions { return standInOptions{ledger: ledger} })
		if err != nil {
			return nil, err
		}
		c.add(s.close)
		simulated = s.app
	}
	all := make(senders, len(apps))
	for name, app := range apps {
		if app.Simulated {
			app = simulated
		}
		all[name] = map[push.Platform]providers.Sender{}
		for _, p := range app.Providers() {
			s, err := platformOf(p.Platform).open(ctx, app)
			if err != nil {
				return nil, misusedf("apps.%s.%s.%w", name, p.Platform, err)
			}
			all.add(name, p.Platform, s, log, c)
		}
	}
	return all, nil
}

func (all senders) add(app string, platform push.Platform, s providers.Sender, log *slog.Logger, c *closers) {
	if reloads, ok := s.(reloader); ok {
		log = log.With("app", app, "platform", platform)
		reloads.OnReload(func(err error) {
			if err != nil {
				log.Error("the credentials have changed and are not used: the old ones stay", "error", err)
				return
			}
			log.Info("the credentials are renewed")
		})
	}
	c.add(s.Close)
	all[app][platform] = s
}

func anySimulated(apps map[string]config.App) bool {
	for _, app := range apps {
		if app.Simulated {
			return true
		}
	}
	return false
}
