package push

import (
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/strictjson"
)

// fcmAPNs is the part for Apple devices. FCM itself fills in the title, the body and the
// data, an expiration of 30 days and priority 10.
// Sources: FCM v1 REST reference, ApnsConfig and Message.data; Apple, "Sending
// notification requests to APNs".
type fcmAPNs struct {
	Headers map[string]string `json:"headers,omitempty"`
	Payload *fcmAPNsPayload   `json:"payload,omitempty"`
	Options *fcmAPNsOptions   `json:"fcm_options,omitempty"`
}

type fcmAPNsPayload struct {
	Aps aps `json:"aps"`
}

type fcmAPNsOptions struct {
	Image string `json:"image"`
}

// fcmWebPush is the part for browsers. FCM itself fills in the title, the body and the
// data, and keeps the message for 28 days; RFC 8030 makes the urgency normal.
// Source: FCM v1 REST reference, WebpushConfig.
type fcmWebPush struct {
	Headers      map[string]string   `json:"headers,omitempty"`
	Notification *fcmWebNotification `json:"notification,omitempty"`
}

type fcmWebNotification struct {
	Image string `json:"image,omitempty"`
	Tag   string `json:"tag,omitempty"`
}

// fcmShown describes the message with the raw block laid over it.
type fcmShown struct {
	// title, body and image are the texts of "notification".
	title, body, image string
	// onApple is true if an Apple device shows an alert, a badge or a sound.
	onApple bool
	// inBrowser is true if a browser shows a notification.
	inBrowser bool
	// liveActivity is true if the message is for a Live Activity of an Apple device.
	liveActivity bool
}

// shownByFCM lays the raw block over the parts that a device shows, and describes the result.
func (n *Notification) shownByFCM(texts *fcmNotification, raw map[string]any) (fcmShown, error) {
	if raw == nil {
		s := fcmShown{title: n.Title, body: n.Body, image: n.Image}
		s.inBrowser = s.title != "" || s.body != ""
		s.onApple = s.inBrowser || n.Badge != nil || n.Sound != ""
		return s, nil
	}
	shows := fcmBody{Notification: texts, APNs: &fcmAPNs{Payload: &fcmAPNsPayload{aps{Badge: n.Badge, Sound: n.Sound}}}}
	derived, err := strictjson.Encode(shows)
	if err != nil {
		return fcmShown{}, err
	}
	var message map[string]any
	if err := strictjson.Decode(derived, &message); err != nil {
		return fcmShown{}, err
	}
	message = mergePatch(message, raw)
	notification := member(message, "notification")
	apns := member(message, "apns")
	aps := member(member(apns, "payload"), "aps")
	var s fcmShown
	s.title, _ = notification["title"].(string)
	s.body, _ = notification["body"].(string)
	s.image, _ = notification["image"].(string)
	s.inBrowser = s.title != "" || s.body != "" || len(member(member(message, "webpush"), "notification")) > 0
	s.onApple = s.title != "" || s.body != "" || aps["badge"] != nil || !isEmpty(aps["sound"]) || alertShows(aps["alert"])
	s.liveActivity = !isEmpty(apns["live_activity_token"])
	return s, nil
}

func member(object map[string]any, name string) map[string]any {
	inner, _ := object[name].(map[string]any)
	return inner
}

// fcmAPNs derives the part for Apple devices. A message that shows nothing on them is a background push:
// nothing else wakes the app. Push types other than alert and background, and a Live Activity, have only
// headers: the raw block has their payload.
func (n *Notification) fcmAPNs(shown fcmShown, now time.Time) *fcmAPNs {
	part := &fcmAPNs{Headers: map[string]string{}}
	if !n.ExpiresAt.IsZero() {
		part.Headers["apns-expiration"] = strconv.FormatInt(n.ExpiresAt.Unix(), 10)
	}
	if n.CollapseKey != "" {
		part.Headers["apns-collapse-id"] = n.collapseID()
	}
	if !n.urgent() {
		part.Headers["apns-priority"] = "5"
	}
	if shown.liveActivity || n.pushType() != PushAlert && n.pushType() != PushBackground {
		return part
	}
	payload := &fcmAPNsPayload{*n.aps()}
	payload.Aps.Alert, payload.Aps.MutableContent = nil, 0
	if shown.image != "" {
		payload.Aps.MutableContent = 1 // the app's service extension fetches the image
		part.Options = &fcmAPNsOptions{shown.image}
	}
	if shown.onApple {
		part.Headers["apns-push-type"] = PushAlert
	} else {
		part.Headers["apns-push-type"], part.Headers["apns-priority"] = PushBackground, "5"
		payload.Aps.ContentAvailable = 1
	}
	if n.Subtitle != "" && (shown.title != "" || shown.body != "") {
		// FCM does not document that it adds title and body to an alert.
		payload.Aps.Alert = &apsAlert{Title: shown.title, Subtitle: n.Subtitle, Body: shown.body}
	}
	if payload.Aps != (aps{}) {
		part.Payload = payload
	}
	return part
}

// fcmWebPush derives the part for browsers.
func (n *Notification) fcmWebPush(shown fcmShown, now time.Time) *fcmWebPush {
	part := &fcmWebPush{Headers: map[string]string{}}
	if ttl, ok := n.fcmTTL(now); ok {
		part.Headers["TTL"] = ttl
	}
	if n.urgent() {
		part.Headers["Urgency"] = "high"
	}
	if n.CollapseKey != "" {
		part.Headers["Topic"] = n.hashedCollapseKey()
	}
	if notification := (fcmWebNotification{shown.image, n.CollapseKey}); shown.inBrowser && notification != (fcmWebNotification{}) {
		part.Notification = &notification
	}
	return part
}

// without leaves out the headers that the raw block has, whatever their letter case, and returns nil
// for an empty part.
func (p *fcmAPNs) without(raw map[string]any) *fcmAPNs {
	dropHeaders(p.Headers, member(raw, "apns"))
	if len(p.Headers) == 0 && p.Payload == nil && p.Options == nil {
		return nil
	}
	return p
}

func (p *fcmWebPush) without(raw map[string]any) *fcmWebPush {
	dropHeaders(p.Headers, member(raw, "webpush"))
	if len(p.Headers) == 0 && p.Notification == nil {
		return nil
	}
	return p
}

func dropHeaders(derived map[string]string, raw map[string]any) {
	for name := range member(raw, "headers") {
		for own := range derived {
			if strings.EqualFold(own, name) {
				delete(derived, own)
			}
		}
	}
}
