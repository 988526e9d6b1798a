// Package push is for producers: the notification, its validation, its rendering for each
// platform, and the Producer, which enqueues it, returns its status and cancels it. Start with
// Producer. The package must link no provider's SDK.
//
// Job, Encode, Decode, OnlyMark, Unsent and Contents are the payload on the queue, for workers.
package push

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pushpace/pushpace/internal/base/duration"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/store"
)

// A Notification is one message to one user, delivered to each of its targets.
// Its JSON form is the same in files, over HTTP and on the queue.
type Notification struct {
	// ID identifies the notification for 24 hours, in all queues and states: the same ID again means the
	// same notification. At most 128 bytes of printable ASCII. The Producer generates a UUIDv7 if it is
	// empty. The app receives it in the data of all platforms, as "pushpace_id".
	ID string `json:"id,omitempty"`
	// App names an app of the configuration. 1 to 128 bytes.
	App string `json:"app"`
	// User names the recipient. Limits are per user. 1 to 128 bytes.
	User string `json:"user"`
	// Category selects the category's limits, if it has any. At most 128 bytes.
	Category string `json:"category,omitempty"`
	// Priority selects the queue. Empty means Default.
	Priority Priority `json:"priority,omitempty"`
	// Targets are the user's devices, 1 to 100.
	Targets []Target `json:"targets"`

	// The content. Push type alert shows all these fields and needs at least one, in a browser the Title;
	// liveactivity shows Title, Body and Sound; the other types show none. Subtitle is for Apple devices
	// only.
	Title    string `json:"title,omitempty"`
	Subtitle string `json:"subtitle,omitempty"`
	Body     string `json:"body,omitempty"`
	// Badge is the number on the app's icon, from 0 to math.MaxInt32; nil leaves it
	// unchanged, 0 removes it. On Android 0 leaves it unchanged.
	Badge *int `json:"badge,omitempty"`
	// Sound is the name of a sound in the app, or "default". Browsers have no sounds.
	Sound string `json:"sound,omitempty"`
	// Image is an https URL. Apple devices receive it from APNs in the data as "image",
	// and through FCM in "fcm_options", for the app's notification service extension.
	Image string `json:"image,omitempty"`
	// Thread groups notifications on Apple devices, Channel on Android.
	Thread  string `json:"thread,omitempty"`
	Channel string `json:"channel,omitempty"`
	// Data is for the app. Reserved keys are "pushpace_id"; on APNs "aps"; on FCM "from",
	// "message_type" and keys that begin with "google." or "gcm.".
	Data map[string]string `json:"data,omitempty"`

	// PushType is APNs' push type. Empty means "alert", the only type for browsers.
	// Through FCM, Apple devices get only "alert" and "background".
	PushType string `json:"push_type,omitempty"`
	// CollapseKey makes a newer notification replace an older one. At most 64
	// bytes of UTF-8 without control characters.
	CollapseKey string `json:"collapse_key,omitempty"`
	// Digest combines waiting notifications with the same key into one push; nil for no digest. It
	// excludes CollapseKey and the raw blocks, and requires push type alert. A critical notification, or
	// a notification of an exempt category, is sent on its own.
	Digest *Digest `json:"digest,omitempty"`

	// NotBefore is the earliest time to send; zero means at once.
	NotBefore time.Time `json:"not_before,omitzero"`
	// NotBeforeLocal is NotBefore as local time, such as "2026-11-25T09:00": in TimeZone, or
	// the Producer's. If clocks skip it, it is the first time after the gap; if clocks show it
	// twice, the first of the two. The Producer turns it into NotBefore.
	NotBeforeLocal string `json:"not_before_local,omitempty"`
	// TimeZone is the IANA name of the user's time zone, such as "Asia/Tokyo", for quiet hours and
	// NotBeforeLocal; empty for limits.time_zone of the configuration. The most recent zone applies to
	// all waiting notifications of the user. At most 64 bytes.
	TimeZone string `json:"time_zone,omitempty"`
	// ExpiresAt is the time from which the notification is not sent; zero means never. A time in the past
	// is a fault, unless the ID is known.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// TTL is ExpiresAt as a duration from the acceptance: the Producer turns it into ExpiresAt. Positive;
	// zero means no TTL.
	TTL Duration `json:"ttl,omitzero"`

	// APNs, FCM and WebPush are raw blocks that change the derived payload: for APNs the
	// payload with "aps", for FCM the "message" of the v1 API, for Web Push the payload
	// with "notification". Objects are merged, null removes a member, anything else
	// replaces it (RFC 7396). A field that is unknown to the platform is a fault.
	APNs    json.RawMessage `json:"apns,omitempty"`
	FCM     json.RawMessage `json:"fcm,omitempty"`
	WebPush json.RawMessage `json:"webpush,omitempty"`
}

// A Target is one device of a user.
type Target struct {
	Platform Platform `json:"platform"`
	// Token is the device's name on the platform: hexadecimal for APNs, for FCM a registration
	// token, for Web Push the subscription's endpoint, an https URL of at most 2048 bytes.
	// Printable ASCII without spaces, at most 4096 bytes.
	Token string `json:"token,omitempty"`
	// FID is a Firebase Installation ID. A target of FCM has either a Token or a FID, and targets of
	// other platforms have none. It has the same form as Token.
	FID string `json:"fid,omitempty"`
	// Keys are the keys of a Web Push subscription, which needs them; nil on other platforms.
	Keys *Keys `json:"keys,omitempty"`
}

// hintLength is the number of characters of an address that may be logged.
const hintLength = 6

// Device returns the target without keys and with a canonical token. Targets with the same Device are one
// device to the platform. A FID and a token never have the same Device.
func (t Target) Device() Target {
	if p := platformOf(t.Platform); p != nil && p.same != nil {
		t.Token = p.same(t.Token)
	}
	return Target{Platform: t.Platform, Token: t.Token, FID: t.FID}
}

// Address returns the target's FID, or its Token if it has no FID.
func (t Target) Address() string {
	if t.FID != "" {
		return t.FID
	}
	return t.Token
}

// Hint returns the last six characters of the target's address, to distinguish it from other targets; ""
// for an address of six characters or fewer. Many endpoints have the same end: for an endpoint it returns
// the first six hexadecimal digits of the SHA-256.
func (t Target) Hint() string {
	if t.Platform == PlatformWebPush {
		sum := sha256.Sum256([]byte(t.Token))
		return hex.EncodeToString(sum[:])[:hintLength]
	}
	address := t.Address()
	if len(address) <= hintLength {
		return ""
	}
	return address[len(address)-hintLength:]
}

// A Platform is a push service.
type Platform = store.Platform

// The platforms.
const (
	APNs            Platform = "apns"
	FCM             Platform = "fcm"
	PlatformWebPush Platform = "webpush" // browsers
)

// A Priority selects the queue. Urgent queues are served first.
type Priority string

// The priorities, most urgent first.
const (
	Critical Priority = "critical"
	Default  Priority = "default"
	Bulk     Priority = "bulk"
)

// Queue returns the asynq queue of notifications with this priority.
func (p Priority) Queue() string {
	switch p {
	case Critical, Bulk:
		return shard.Queue(string(p))
	}
	return shard.Queue(string(Default))
}

// A Duration is a time.Duration in Go's notation, or in days: "2h", "90s", "5d".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) {
	return []byte(time.Duration(d).String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := duration.Parse(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 2h, 90s or 5d", text)
	}
	*d = Duration(v)
	return nil
}
