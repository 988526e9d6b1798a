package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/textfile"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/providers/webpush/webpushtest"
	"github.com/pushpace/pushpace/push"
)

var webPushPlatform = Platform{
	Name:  push.PlatformWebPush,
	Flags: []TargetFlag{{"webpush", "a browser's subscription, the `FILE` with what its toJSON returns; repeatable", readSubscription}},
	open:  func(_ context.Context, a config.App) (providers.Sender, error) { return webpush.New(a.WebPush.Config) },
	standIn: func(folder string, o StandInOptions, app *config.App) (StandIn, error) {
		s, err := webpushtest.NewServer(webpushtest.Options{Address: o.Address, Latency: o.Latency, Ledger: o.Ledger})
		if err != nil {
			return nil, err
		}
		c, err := s.WriteCredentials(folder)
		app.WebPush = &config.WebPush{Config: c}
		return s, err
	},
	Settings: func(a config.App) [][2]string {
		c := a.WebPush
		return [][2]string{{"subject", c.Subject}, {"private_key_file", c.PrivateKeyFile}, {"endpoint", c.Endpoint}, {"root_ca_file", c.RootCAFile}}
	},
	render: func(_ config.App, n *push.Notification, t push.Target, now time.Time) (Rendered, error) {
		m, err := n.RenderWebPush(t, now)
		rendered := Rendered{Payload: m.Payload, Headers: []Header{{"TTL", strconv.Itoa(m.TTL)}, {"Urgency", m.Urgency}}}
		if m.Topic != "" {
			rendered.Headers = append(rendered.Headers, Header{"Topic", m.Topic})
		}
		return rendered, err
	},
}

// A Subscription is a browser's PushSubscription.toJSON.
type Subscription struct {
	Endpoint string     `json:"endpoint"`
	Keys     *push.Keys `json:"keys"`
}

// mostSubscription bounds the file of a subscription, in bytes.
const mostSubscription = 64 << 10

// readSubscription reads the target from a file with a PushSubscription.toJSON. Its errors
// contain nothing of the file, nor of a subscription given instead of a file.
func readSubscription(file string) (push.Target, error) {
	if strings.ContainsAny(file, "{}") || strings.Contains(file, "://") {
		return push.Target{}, errors.New("want a FILE with the subscription, not the subscription itself")
	}
	f, err := os.Open(file)
	if err != nil {
		return push.Target{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostSubscription))
	if err == nil {
		text, err = textfile.Decode(text)
	}
	if err != nil {
		return push.Target{}, fmt.Errorf("%s: %w", file, err)
	}
	var s Subscription
	if err := json.Unmarshal(text, &s); err != nil || s.Endpoint == "" || s.Keys == nil {
		return push.Target{}, fmt.Errorf("%s is no subscription: want JSON with endpoint and keys, as PushSubscription.toJSON returns it", file)
	}
	return push.Target{Platform: push.PlatformWebPush, Token: s.Endpoint, Keys: s.Keys}, nil
}
