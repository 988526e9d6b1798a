package main

import (
	"context"
	"os"

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
// apps need record what they accept in the ledger.
func openSenders(ctx context.Context, apps map[string]config.App, ledger *standin.Ledger, c *closers) (senders, error) {
	var simulated config.App
	if anySimulated(apps) {
		dir, err := os.MkdirTemp("", "pushpace-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir) // the senders read the credentials once, below
		s, err := startStandIns(dir, apnstest.Options{Ledger: ledger}, fcmtest.Options{Ledger: ledger})
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
			s, err := apns.New(*app.APNs)
			if err != nil {
				return nil, misusedf("apps.%s.apns.%w", name, err)
			}
			c.add(s.Close)
			all[name][push.APNs] = s
		}
		if app.FCM != nil {
			s, err := fcm.New(ctx, *app.FCM)
			if err != nil {
				return nil, misusedf("apps.%s.fcm.%w", name, err)
			}
			c.add(s.Close)
			all[name][push.FCM] = s
		}
	}
	return all, nil
}

func anySimulated(apps map[string]config.App) bool {
	for _, app := range apps {
		if app.Simulated {
			return true
		}
	}
	return false
}
