package app

import (
	"context"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/fcm"
	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
	"github.com/pushpace/pushpace/push"
)

var fcmPlatform = Platform{
	Name: push.FCM,
	Flags: []TargetFlag{
		{"fcm", "an FCM registration `TOKEN`; repeatable", func(s string) (push.Target, error) { return push.Target{Platform: push.FCM, Token: s}, nil }},
		{"fcm-fid", "a Firebase Installation ID, the `FID` of FCM; repeatable", func(s string) (push.Target, error) { return push.Target{Platform: push.FCM, FID: s}, nil }},
	},
	open: func(ctx context.Context, a config.App) (providers.Sender, error) { return fcm.New(ctx, a.FCM.Config) },
	standIn: func(folder string, o StandInOptions, app *config.App) (StandIn, error) {
		s, err := fcmtest.NewServer(fcmtest.Options{Address: o.Address, Latency: o.Latency, Ledger: o.Ledger})
		if err != nil {
			return nil, err
		}
		c, err := s.WriteCredentials(folder)
		app.FCM = &config.FCM{Config: c}
		return s, err
	},
	Settings: func(a config.App) [][2]string {
		c := a.FCM
		return [][2]string{{"credentials_file", c.CredentialsFile}, {"endpoint", c.Endpoint}, {"root_ca_file", c.RootCAFile}}
	},
	render: func(_ config.App, n *push.Notification, t push.Target, now time.Time) (Rendered, error) {
		m, err := n.RenderFCM(t, now)
		return Rendered{Message: m.JSON}, err
	},
}
