package app

import (
	"encoding/json"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/push"
)

// Rendered is the provider's payload for one target: APNs' headers and payload, or FCM's message.
type Rendered struct {
	Platform push.Platform   `json:"platform"`
	Token    string          `json:"token,omitempty"`
	FID      string          `json:"fid,omitempty"`
	Headers  []Header        `json:"headers,omitempty"`
	Payload  json.RawMessage `json:"payload,omitempty"`
	Message  json.RawMessage `json:"message,omitempty"`
}

// A Header is a header of a request.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Render renders the payload for one target.
func Render(app config.App, n *push.Notification, t push.Target, now time.Time) (Rendered, error) {
	rendered, err := PlatformOf(t.Platform).render(app, n, t, now)
	rendered.Platform, rendered.Token, rendered.FID = t.Platform, t.Token, t.FID
	return rendered, err
}
