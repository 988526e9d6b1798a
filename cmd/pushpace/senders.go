package main

import (
	"context"
	"log/slog"
	"slices"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/apns/apnstest"
	"github.com/pushpace/pushpace/providers/fcm"
	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// senders are each app's, by platform.
type senders map[string]map[push.Platform]providers.Sender

// openSenders returns the senders of all apps. The stand-ins that simulated
// apps need record what they accept in the ledger, and have their credentials in the
// folder. Credentials that change are told of in the log.
func openSenders(ctx context.Context, apps map[string]config.App, folder string, ledger *standin.Ledger, log *slog.Logger, c *closers) (senders, error) {
	var simulated config.App
	if anySimulated(apps) {
		s, err := startStandIns(folder, apnstest.Options{Ledger: ledger}, fcmtest.Options{Ledger: ledger})
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
		if app.APNs != nil {
			s, err := apns.New(app.APNs.Config)
			if err != nil {
				return nil, misusedf("apps.%s.apns.%w", name, err)
			}
			all.add(name, push.APNs, s, log, c)
		}
		if app.FCM != nil {
			s, err := fcm.New(ctx, app.FCM.Config)
			if err != nil {
				return nil, misusedf("apps.%s.fcm.%w", name, err)
			}
			all.add(name, push.FCM, s, log, c)
		}
	}
	return all, nil
}

// A reloader is a sender that tells of credentials that change.
type reloader interface {
	providers.Sender
	OnReload(func(error))
}

func (all senders) add(app string, platform push.Platform, s reloader, log *slog.Logger, c *closers) {
	log = log.With("app", app, "platform", platform)
	s.OnReload(func(err error) {
		if err != nil {
			log.Error("the credentials have changed and are not used: the old ones stay", "error", err)
			return
		}
		log.Info("the credentials are renewed")
	})
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

// letterReasons are those that a dead letter can have.
func letterReasons() (all []string) {
	for _, reasons := range [][]providers.Reason{providers.Reasons(), apns.Reasons(), fcm.Reasons()} {
		for _, r := range reasons {
			if r != providers.OK && r != providers.DryRun {
				all = append(all, string(r))
			}
		}
	}
	for _, r := range push.MalformedReasons {
		all = append(all, string(r))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
