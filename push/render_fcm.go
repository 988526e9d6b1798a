package push

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/base/faults"
	"github.com/pushpace/pushpace/internal/base/strictjson"
)

// MaxFCMMessage is the most bytes of an FCM message: its JSON as rendered,
// without the token. FCM counts 4096 bytes of payload; counting all but the
// token is at most a little stricter, and the same for every target.
const MaxFCMMessage = 4096

// MaxFCMTTL is the longest FCM keeps a message: 28 days. A longer life is cut to
// it when rendering. Source: FCM v1 REST reference, AndroidConfig.ttl.
const MaxFCMTTL = 28 * 24 * time.Hour

// RenderFCM renders the notification for one FCM target. It expects a
// notification that Validate accepts and that has an ID. What is left of its life
// at now becomes android.ttl in whole seconds, rounded down, at most MaxFCMTTL.
//
// The derived message is "notification" (title, body, image), "data" with the ID
// as "pushpace_id", and "android": priority "high", or "normal" for Bulk and for
// push type background; the collapse key, which is also the shown notification's
// tag, so that a newer one replaces it; sound, channel, and the badge as
// notification_count. Subtitle, Category and Thread have no counterpart. The raw block is
// laid over it.
//
// The error is of type Faults when the message is too large.
func (n *Notification) RenderFCM(t Target, now time.Time) (FCMMessage, error) {
	if t.Platform != FCM {
		return FCMMessage{}, fmt.Errorf("render for FCM: the target's platform is %q", t.Platform)
	}
	if n.ID == "" {
		return FCMMessage{}, fmt.Errorf("render for FCM: %w", errNoID)
	}
	ttl := ""
	if !n.ExpiresAt.IsZero() {
		ttl = fcmTTL(n.ExpiresAt.Sub(now))
	}
	message, err := n.fcmMessage(n.ID, ttl)
	if err != nil {
		return FCMMessage{}, fmt.Errorf("render for FCM: %w", err)
	}
	token, err := strictjson.Encode(fcmToken{t.Token})
	if err != nil {
		return FCMMessage{}, fmt.Errorf("render for FCM: %w", err)
	}
	return FCMMessage{JSON: spliceJSON(token, message)}, nil
}

// fcmTTL writes a duration as FCM reads it, in whole seconds, rounded down.
func fcmTTL(d time.Duration) string {
	d = min(max(d, 0), MaxFCMTTL)
	return strconv.FormatInt(int64(d/time.Second), 10) + "s"
}

type fcmToken struct {
	Token string `json:"token"`
}

type fcmBody struct {
	Data         map[string]string `json:"data"`
	Notification *fcmNotification  `json:"notification,omitempty"`
	Android      fcmAndroid        `json:"android"`
}

type fcmNotification struct {
	Title string `json:"title,omitempty"`
	Body  string `json:"body,omitempty"`
	Image string `json:"image,omitempty"`
}

type fcmAndroid struct {
	CollapseKey  string                  `json:"collapse_key,omitempty"`
	Priority     string                  `json:"priority"`
	TTL          string                  `json:"ttl,omitempty"`
	Notification *fcmAndroidNotification `json:"notification,omitempty"`
}

type fcmAndroidNotification struct {
	Sound     string `json:"sound,omitempty"`
	ChannelID string `json:"channel_id,omitempty"`
	Tag       string `json:"tag,omitempty"`
	Count     *int   `json:"notification_count,omitempty"`
}

// fcmMessage renders the message without its token, as if the notification's ID
// were id, and checks its size.
func (n *Notification) fcmMessage(id, ttl string) ([]byte, error) {
	message, err := strictjson.Encode(n.fcmBody(id, ttl))
	if err != nil {
		return nil, err
	}
	if !absent(n.FCM) {
		merged, err := overlay(message, n.FCM)
		if err != nil {
			return nil, fmt.Errorf("lay the block fcm over the message: %w", err)
		}
		putID(merged, id)
		if message, err = strictjson.Encode(merged); err != nil {
			return nil, err
		}
	}
	if len(message) > MaxFCMMessage {
		return nil, faults.New("", "is %d bytes as FCM's message without its token, at most %d are taken", len(message), MaxFCMMessage)
	}
	return message, nil
}

// largestFCMMessage renders the message with the longest TTL that it can have.
func (n *Notification) largestFCMMessage(id string) ([]byte, error) {
	ttl := ""
	if n.TTL != 0 || !n.ExpiresAt.IsZero() {
		ttl = fcmTTL(MaxFCMTTL)
	}
	return n.fcmMessage(id, ttl)
}

// putID puts the ID where the raw block left it out: its data may be removed, and
// a platform's own data replaces the message's.
func putID(message map[string]any, id string) {
	if _, ok := message["data"]; !ok {
		message["data"] = map[string]any{}
	}
	android, _ := message["android"].(map[string]any)
	webpush, _ := message["webpush"].(map[string]any)
	for _, holder := range []map[string]any{message, android, webpush} {
		if data, ok := holder["data"].(map[string]any); ok {
			data[IDKey] = id
		}
	}
}

func (n *Notification) fcmBody(id, ttl string) fcmBody {
	data := make(map[string]string, len(n.Data)+1)
	maps.Copy(data, n.Data)
	data[IDKey] = id

	b := fcmBody{Data: data, Android: fcmAndroid{CollapseKey: n.CollapseKey, Priority: "high", TTL: ttl}}
	if !n.urgent() {
		b.Android.Priority = "normal"
	}
	shown := fcmAndroidNotification{Sound: n.Sound, ChannelID: n.Channel, Count: n.Badge}
	if n.Title != "" || n.Body != "" || n.Image != "" {
		b.Notification = &fcmNotification{Title: n.Title, Body: n.Body, Image: n.Image}
		shown.Tag = n.CollapseKey
	}
	if shown != (fcmAndroidNotification{}) {
		b.Android.Notification = &shown
	}
	return b
}
