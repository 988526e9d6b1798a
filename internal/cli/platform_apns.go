package cli

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/apns/apnstest"
	"github.com/pushpace/pushpace/push"
)

var apnsPlatform = platform{
	name:  push.APNs,
	token: "an APNs `TOKEN`; repeatable",
	open:  func(_ context.Context, a config.App) (providers.Sender, error) { return apns.New(a.APNs.Config) },
	standIn: func(folder string, o standInOptions, app *config.App) (standInServer, error) {
		s, err := apnstest.NewServer(apnstest.Options{Address: o.address, Latency: o.latency, Ledger: o.ledger})
		if err != nil {
			return nil, err
		}
		c, err := s.WriteCredentials(folder)
		app.APNs = &config.APNs{Config: c}
		return s, err
	},
	settings: func(a config.App) [][2]string {
		c := a.APNs
		return [][2]string{
			{"topic", c.Topic}, {"endpoint", c.Endpoint}, {"root_ca_file", c.RootCAFile},
			{"key_file", c.KeyFile}, {"key_id", c.KeyID}, {"team_id", c.TeamID},
		}
	},
	render: renderAPNs,
	effective: func(a config.App, e *effectiveApp) {
		c := a.APNs
		e.APNs = &effectiveAPNs{c.Topic, cmp.Or(c.Environment, apns.Production), c.Endpoint, sharedOf(c.Shared)}
	},
}

type effectiveAPNs struct {
	Topic           string `json:"topic"`
	Environment     string `json:"environment"`
	Endpoint        string `json:"endpoint,omitempty"`
	effectiveShared `yaml:",inline"`
}

func renderAPNs(app config.App, n *push.Notification, t push.Target, _ time.Time) (renderedTarget, error) {
	m, err := n.RenderAPNs(t)
	topic := m.TopicSuffix // after what a simulated app has
	if app.APNs != nil {
		topic = app.APNs.Topic + topic
	}
	rendered := renderedTarget{Payload: m.Payload}
	for _, h := range []header{
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
