package push

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/internal/base/strictjson"
)

// MaxWebPushPayload is the maximum size in bytes of a Web Push payload before its encryption: push
// services accept 4096 bytes, of which the encryption needs 103. Source: RFC 8291, section 4.
const MaxWebPushPayload = 3993

// MaxWebPushTTL is the maximum TTL of a message: 28 days, as for FCM. Rendering shortens a longer time to
// it.
const MaxWebPushTTL = 28 * 24 * time.Hour

// RenderWebPush renders the notification for one Web Push target. It expects a notification
// that Validate accepts and that has an ID. The time from now to ExpiresAt becomes the TTL,
// in whole seconds, rounded down, from 1 to MaxWebPushTTL.
//
// The derived payload is "notification" (title, body, image; data, with the ID as "pushpace_id"; and as
// tag the collapse key or else the ID, so that a repeated push replaces the first), and the badge as
// "app_badge". Subtitle, Sound, Thread, Channel and Category have no counterpart. The raw block is laid
// over the payload; with a notification.navigate in the block, the payload is one of Declarative Web
// Push.
//
// The error is of type Faults when the payload is too large.
func (n *Notification) RenderWebPush(t Target, now time.Time) (WebPushMessage, error) {
	if t.Platform != PlatformWebPush {
		return WebPushMessage{}, fmt.Errorf("render for Web Push: the target's platform is %q", t.Platform)
	}
	if n.ID == "" {
		return WebPushMessage{}, fmt.Errorf("render for Web Push: %w", errNoID)
	}
	payload, err := n.webPushPayload(n.ID)
	if err != nil {
		return WebPushMessage{}, fmt.Errorf("render for Web Push: %w", err)
	}
	left := MaxWebPushTTL
	if !n.ExpiresAt.IsZero() {
		left = min(max(n.ExpiresAt.Sub(now), time.Second), MaxWebPushTTL)
	}
	m := WebPushMessage{Payload: payload, TTL: int(left / time.Second), Urgency: "high", Topic: n.hashedCollapseKey()}
	if !n.urgent() {
		m.Urgency = "normal"
	}
	return m, nil
}

// hashedCollapseKey is the topic under which a push service keeps only the newest message of a
// subscription: the same for the same collapse key of the user, "" without a key. Apple refuses some
// lengths, and accepts 32 characters.
func (n *Notification) hashedCollapseKey() string {
	if n.CollapseKey == "" {
		return ""
	}
	const bytes = 24
	sum := sha256.Sum256([]byte(n.App + "\x00" + n.User + "\x00" + n.CollapseKey))
	return base64.RawURLEncoding.EncodeToString(sum[:bytes])
}

type webPushBody struct {
	Version      json.Number         `json:"web_push,omitempty"`
	Notification webPushNotification `json:"notification"`
	Badge        *int                `json:"app_badge,omitempty"`
}

type webPushNotification struct {
	Title string            `json:"title,omitempty"`
	Body  string            `json:"body,omitempty"`
	Image string            `json:"image,omitempty"`
	Tag   string            `json:"tag"`
	Data  map[string]string `json:"data"`
}

// webPushPayload renders the payload as if the notification's ID were id, and checks its
// size.
func (n *Notification) webPushPayload(id string) ([]byte, error) {
	body := n.webPushBody(id)
	payload, err := strictjson.Encode(body)
	if err != nil {
		return nil, err
	}
	if !absent(n.WebPush) {
		merged, err := overlay(payload, n.WebPush)
		if err != nil {
			return nil, fmt.Errorf("lay the block webpush over the payload: %w", err)
		}
		putWebPushID(merged, id)
		if payload, err = strictjson.Encode(merged); err != nil {
			return nil, err
		}
	}
	if len(payload) > MaxWebPushPayload {
		return nil, fielderrors.New("", "is %d bytes as Web Push's payload, at most %d are taken", len(payload), MaxWebPushPayload)
	}
	return payload, nil
}

func (n *Notification) webPushBody(id string) webPushBody {
	data := make(map[string]string, len(n.Data)+1)
	maps.Copy(data, n.Data)
	data[IDKey] = id
	b := webPushBody{Badge: n.Badge, Notification: webPushNotification{Title: n.Title, Body: n.Body, Image: n.Image, Tag: n.CollapseKey, Data: data}}
	if b.Notification.Tag == "" {
		b.Notification.Tag = id
	}
	if n.navigates() {
		b.Version = webPushVersion
	}
	return b
}

// navigates reports whether the raw block says where a click on the notification leads.
func (n *Notification) navigates() bool {
	var block map[string]any
	if absent(n.WebPush) || strictjson.Decode(n.WebPush, &block) != nil {
		return false
	}
	notification, _ := block["notification"].(map[string]any)
	return !isEmpty(notification["navigate"])
}

// putWebPushID puts the ID into the data, which the raw block may have removed.
func putWebPushID(payload map[string]any, id string) {
	for _, name := range []string{"notification", "data"} {
		inner, ok := payload[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			payload[name] = inner
		}
		payload = inner
	}
	payload[IDKey] = id
}

// titledForWebPush reports whether the payload has a title, without which browsers and
// service workers show nothing.
func (n *Notification) titledForWebPush() bool {
	if absent(n.WebPush) {
		return n.Title != ""
	}
	derived, err := strictjson.Encode(n.webPushBody(""))
	if err != nil {
		return true // rendering reports the error
	}
	payload, err := overlay(derived, n.WebPush)
	if err != nil {
		return true
	}
	notification, _ := payload["notification"].(map[string]any)
	return !isEmpty(notification["title"])
}
