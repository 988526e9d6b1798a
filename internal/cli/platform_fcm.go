package cli

import (
	"context"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/fcm"
	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
	"github.com/pushpace/pushpace/push"
)

var fcmPlatform = platform{
	name:  push.FCM,
	token: "an FCM `TOKEN`; repeatable",
	open:  func(ctx context.Context, a config.App) (providers.Sender, error) { return fcm.New(ctx, a.FCM.Config) },
	standIn: func(folder string, o standInOptions, app *config.App) (standInServer, error) {
		s, err := fcmtest.NewServer(fcmtest.Options{Address: o.address, Latency: o.latency, Ledger: o.ledger})
		if err != nil {
			return nil, err
		}
		c, err := s.WriteCredentials(folder)
		app.FCM = &config.FCM{Config: c}
		return s, err
	},
	settings: func(a config.App) [][2]string {
		c := a.FCM
		return [][2]string{{"credentials_file", c.CredentialsFile}, {"endpoint", c.Endpoint}, {"root_ca_file", c.RootCAFile}}
	},
	render: func(_ config.App, n *push.Notification, t push.Target, now time.Time) (renderedTarget, error) {
		m, err := n.RenderFCM(t, now)
		return renderedTarget{Message: m.JSON}, err
	},
	effective: func(a config.App, e *effectiveApp) {
		c := a.FCM
		e.FCM = &effectiveFCM{c.ProjectID, c.Endpoint, sharedOf(c.Shared)}
	},
}

type effectiveFCM struct {
	ProjectID       string `json:"project_id,omitempty"`
	Endpoint        string `json:"endpoint,omitempty"`
	effectiveShared `yaml:",inline"`
}
