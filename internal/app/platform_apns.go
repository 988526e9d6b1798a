package app

import (
	"context"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/apns/apnstest"
	"github.com/pushpace/pushpace/push"
)

var apnsPlatform = Platform{
	Name:  push.APNs,
	Flags: []TargetFlag{{"apns", "an APNs `TOKEN`; repeatable", func(s string) (push.Target, error) { return push.Target{Platform: push.APNs, Token: s}, nil }}},
	open:  func(_ context.Context, a config.App) (providers.Sender, error) { return apns.New(a.APNs.Config) },
	standIn: func(folder string, o StandInOptions, app *config.App) (StandIn, error) {
		s, err := apnstest.NewServer(apnstest.Options{Address: o.Address, Latency: o.Latency, Ledger: o.Ledger})
		if err != nil {
			return nil, err
		}
		c, err := s.WriteCredentials(folder)
		app.APNs = &config.APNs{Config: c}
		return s, err
	},
	Settings: func(a config.App) [][2]string {
		c := a.APNs
		return [][2]string{
			{"topic", c.Topic}, {"endpoint", c.Endpoint}, {"root_ca_file", c.RootCAFile},
			{"key_file", c.KeyFile}, {"key_id", c.KeyID}, {"team_id", c.TeamID},
		}
	},
	render: renderAPNs,
}

func renderAPNs(app config.App, n *push.Notification, t push.Target, _ time.Time) (Rendered, error) {
	m, err := n.RenderAPNs(t)
	topic := m.TopicSuffix // a simulated app has no topic before it
	if app.APNs != nil {
		topic = app.APNs.Topic + topic
	}
	rendered := Rendered{Payload: m.Payload}
	for _, h := range []Header{
		{"apns-id", m.ID}, {"apns-topic", topic}, {"apns-push-type", m.PushType}, {"apns-priority", strconv.Itoa(m.Priority)},
		{"apns-expiration", unixOrNone(m.Expiration)}, {"apns-collapse-id", m.CollapseID},
	} {
		if h.Value != "" {
			rendered.Headers = append(rendered.Headers, h)
		}
	}
	return rendered, err
}

func unixOrNone(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.Unix(), 10)
}
