package push

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/base/strictjson"
)

// MaxFCMMessage is the maximum size in bytes of an FCM message for one kind of device, without the token
// or FID: see checkFCMSize.
const MaxFCMMessage = 4096

// MaxFCMTTL is the longest time that FCM stores a message: 28 days. Rendering shortens a longer time to
// it. Source: FCM v1 REST reference, AndroidConfig.ttl.
const MaxFCMTTL = 28 * 24 * time.Hour

// RenderFCM renders the notification for one FCM target, which is an Android device, an
// Apple device or a browser: the target does not say which. It expects a notification
// that Validate accepts and that has an ID. The time from now to ExpiresAt becomes
// android.ttl in whole seconds, rounded down, at most MaxFCMTTL.
//
// The derived message is "notification" (title, body, image), "data" with the ID as "pushpace_id", and
// "android": priority "high", or "normal" for Bulk and for push type background; the collapse key, which
// is also the shown notification's tag, so that a newer notification replaces it; sound, channel, and the
// badge as notification_count. "apns" and "webpush" have the same for Apple devices and browsers: see
// fcmAPNs and fcmWebPush. The raw block is laid over all of it.
//
// The error is of type Faults when the message is too large.
func (n *Notification) RenderFCM(t Target, now time.Time) (FCMMessage, error) {
	if t.Platform != FCM {
		return FCMMessage{}, fmt.Errorf("render for FCM: the target's platform is %q", t.Platform)
	}
	if n.ID == "" {
		return FCMMessage{}, fmt.Errorf("render for FCM: %w", errNoID)
	}
	message, err := n.fcmMessage(n.ID, now)
	if err != nil {
		return FCMMessage{}, fmt.Errorf("render for FCM: %w", err)
	}
	address, err := strictjson.Encode(fcmAddress{t.Token, t.FID})
	if err != nil {
		return FCMMessage{}, fmt.Errorf("render for FCM: %w", err)
	}
	return FCMMessage{JSON: spliceJSON(address, message)}, nil
}

// fcmTTL returns the seconds from now until the notification expires, rounded down; ok is false if it
// never expires.
func (n *Notification) fcmTTL(now time.Time) (seconds string, ok bool) {
	if n.ExpiresAt.IsZero() {
		return "", false
	}
	left := min(max(n.ExpiresAt.Sub(now), 0), MaxFCMTTL)
	return strconv.FormatInt(int64(left/time.Second), 10), true
}

type fcmAddress struct {
	Token string `json:"token,omitempty"`
	FID   string `json:"fid,omitempty"`
}

type fcmBody struct {
	Data         map[string]string `json:"data"`
	Notification *fcmNotification  `json:"notification,omitempty"`
	Android      fcmAndroid        `json:"android"`
	APNs         *fcmAPNs          `json:"apns,omitempty"`
	WebPush      *fcmWebPush       `json:"webpush,omitempty"`
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

// fcmMessage renders the message without its token or FID, as if the notification's ID
// were id, and checks its size.
func (n *Notification) fcmMessage(id string, now time.Time) ([]byte, error) {
	var raw map[string]any
	if !absent(n.FCM) {
		if err := strictjson.Decode(n.FCM, &raw); err != nil {
			return nil, fmt.Errorf("lay the block fcm over the message: %w", err)
		}
	}
	body := n.fcmBody(id, now)
	shown, err := n.shownByFCM(body.Notification, raw)
	if err != nil {
		return nil, err
	}
	body.APNs = n.fcmAPNs(shown, now).without(raw)
	body.WebPush = n.fcmWebPush(shown, now).without(raw)
	message, err := strictjson.Encode(body)
	if err != nil {
		return nil, err
	}
	if raw != nil {
		var derived map[string]any
		if err := strictjson.Decode(message, &derived); err != nil {
			return nil, err
		}
		merged := mergePatch(derived, raw)
		putID(merged, id)
		if message, err = strictjson.Encode(merged); err != nil {
			return nil, err
		}
	}
	if err := checkFCMSize(message); err != nil {
		return nil, err
	}
	return message, nil
}

// largestFCMMessage renders the message with the longest TTL that it can have.
func (n *Notification) largestFCMMessage(id string) ([]byte, error) {
	now := time.Unix(0, 0)
	longest := *n
	if n.TTL != 0 || !n.ExpiresAt.IsZero() {
		longest.ExpiresAt = now.Add(MaxFCMTTL)
	}
	return longest.fcmMessage(id, now)
}

// putID puts the ID into the data: the raw block may have removed the message's data, or a
// platform's own data may replace it.
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

// fcmBody derives the message without the parts for Apple devices and for browsers.
func (n *Notification) fcmBody(id string, now time.Time) fcmBody {
	data := make(map[string]string, len(n.Data)+1)
	maps.Copy(data, n.Data)
	data[IDKey] = id

	b := fcmBody{Data: data, Android: fcmAndroid{CollapseKey: n.CollapseKey, Priority: "high"}}
	if ttl, ok := n.fcmTTL(now); ok {
		b.Android.TTL = ttl + "s"
	}
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
