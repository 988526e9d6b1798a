package push

import (
	"fmt"
	"maps"
	"time"

	"github.com/pushpace/pushpace/internal/base/faults"
	"github.com/pushpace/pushpace/internal/base/strictjson"
)

// MaxWebPushPayload is the most bytes of a Web Push payload before it is encrypted: one
// record of 4096 bytes, less its header, delimiter and tag. Source: RFC 8291, section 4.
const MaxWebPushPayload = 3993

// MaxWebPushTTL is the longest that a push service is asked to keep a message: 28 days.
const MaxWebPushTTL = 28 * 24 * time.Hour

// A WebPush is a notification rendered for Web Push. The zero value is none.
type WebPush struct {
	// Payload is the JSON for the service worker, at most MaxWebPushPayload bytes.
	Payload []byte
	// TTL is how long the push service keeps it, in seconds, from 1 to MaxWebPushTTL.
	TTL int
	// Urgency is "normal" or "high". Source: RFC 8030, section 5.3.
	Urgency string
	// Topic names what a newer message replaces, in at most 32 characters of
	// base64url; empty for none. Source: RFC 8030, section 5.4.
	Topic string
}

// RenderWebPush renders the notification for one Web Push target. It expects a
// notification that Validate accepts and that has an ID. What is left of its life
// at now becomes the TTL in whole seconds, rounded down, from 1 to MaxWebPushTTL.
//
// The error is of type Faults when the payload is too large.
func (n *Notification) RenderWebPush(t Target, now time.Time) (WebPush, error) {
	if t.Platform != PlatformWebPush {
		return WebPush{}, fmt.Errorf("render for Web Push: the target's platform is %q", t.Platform)
	}
	if n.ID == "" {
		return WebPush{}, fmt.Errorf("render for Web Push: %w", errNoID)
	}
	data := make(map[string]string, len(n.Data)+1)
	maps.Copy(data, n.Data)
	data[IDKey] = n.ID
	payload, err := strictjson.Encode(webPushBody{Notification: webPushNotification{Title: n.Title, Body: n.Body, Image: n.Image, Data: data}})
	if err != nil {
		return WebPush{}, fmt.Errorf("render for Web Push: %w", err)
	}
	if len(payload) > MaxWebPushPayload {
		err := faults.New("", "is %d bytes as the payload of Web Push, at most %d are taken", len(payload), MaxWebPushPayload)
		return WebPush{}, fmt.Errorf("render for Web Push: %w", err)
	}
	m := WebPush{Payload: payload, TTL: int(MaxWebPushTTL / time.Second), Urgency: "high"}
	if !n.ExpiresAt.IsZero() {
		m.TTL = int(min(max(n.ExpiresAt.Sub(now), time.Second), MaxWebPushTTL) / time.Second)
	}
	if !n.urgent() {
		m.Urgency = "normal"
	}
	return m, nil
}

type webPushBody struct {
	Notification webPushNotification `json:"notification"`
}

type webPushNotification struct {
	Title string            `json:"title,omitempty"`
	Body  string            `json:"body,omitempty"`
	Image string            `json:"image,omitempty"`
	Data  map[string]string `json:"data"`
}
