package push

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/internal/base/names"
	"github.com/pushpace/pushpace/internal/base/strictjson"
)

// The maximum size of a payload for APNs, in bytes. Source: Apple, "Generating a remote notification".
const (
	MaxAPNsPayload     = 4096
	MaxAPNsVoIPPayload = 5120
)

// IDKey is the key of the notification's ID in the data of all platforms, by which apps recognize
// duplicates. A notification cannot set or remove it.
const IDKey = "pushpace_id"

// apnsImageKey is the key of the image's URL in an APNs payload, for the app's
// notification service extension.
const apnsImageKey = "image"

// apnsIDSpace is the name space of the UUIDv5 in apns-id. A change gives retries of notifications in
// flight a new apns-id.
var apnsIDSpace = uuid.MustParse("8f3c1d52-6a0e-4b7b-9a55-2c1f4de0b7a6")

var errNoID = errors.New("the notification has no id: the Producer generates one when it accepts it")

// RenderAPNs renders the notification for one APNs target. It expects a
// notification that Validate accepts and that has an ID.
//
// The derived payload is "aps" (alert, badge, sound, category, thread-id, and the members that the push
// type needs), every entry of Data as a string at the top level, the image's URL as "image" with
// mutable-content, and the ID as "pushpace_id". The raw block is laid over the payload. A collapse key
// that is not printable ASCII becomes its hash in apns-collapse-id. apns-priority is 10, or 5 for Bulk
// and for push type background.
//
// The error is of type Faults when the payload is too large.
func (n *Notification) RenderAPNs(t Target) (APNsMessage, error) {
	if t.Platform != APNs {
		return APNsMessage{}, fmt.Errorf("render for APNs: the target's platform is %q", t.Platform)
	}
	if n.ID == "" {
		return APNsMessage{}, fmt.Errorf("render for APNs: %w", errNoID)
	}
	payload, err := n.apnsPayload(n.ID)
	if err != nil {
		return APNsMessage{}, fmt.Errorf("render for APNs: %w", err)
	}
	m := APNsMessage{
		ID:          apnsID(n.ID, t),
		PushType:    n.pushType(),
		TopicSuffix: topicSuffixes[n.pushType()],
		CollapseID:  n.collapseID(),
		Priority:    10,
		Expiration:  n.ExpiresAt,
		Payload:     payload,
	}
	if !n.urgent() {
		m.Priority = 5
	}
	return m, nil
}

// collapseID returns the collapse key for a header: the key itself if it is printable ASCII, else the
// hash that Web Push uses for every key.
func (n *Notification) collapseID() string {
	if isPrintable(n.CollapseKey, ' ') && names.Ends(n.CollapseKey) == "" && len(n.CollapseKey) <= MaxCollapseKeyBytes {
		return n.CollapseKey
	}
	return n.hashedCollapseKey()
}

// urgent reports whether the platforms are asked to deliver at once rather than when it suits the
// device's battery. APNs refuses this for push type background.
func (n *Notification) urgent() bool {
	return n.Priority != Bulk && n.PushType != PushBackground
}

// apnsID returns the UUIDv5 of a notification's ID and its target. The separator
// cannot occur in either.
func apnsID(id string, t Target) string {
	name := make([]byte, 0, 512)
	name = append(name, id...)
	name = append(name, 0)
	name = append(name, t.Platform...)
	name = append(name, 0)
	name = append(name, t.Token...)
	return uuid.NewSHA1(apnsIDSpace, name).String()
}

type apnsBody struct {
	Aps   *aps   `json:"aps,omitempty"`
	Image string `json:"image,omitempty"`
	ID    string `json:"pushpace_id"`
}

type aps struct {
	Alert            *apsAlert `json:"alert,omitempty"`
	Badge            *int      `json:"badge,omitempty"`
	Sound            string    `json:"sound,omitempty"`
	Category         string    `json:"category,omitempty"`
	ThreadID         string    `json:"thread-id,omitempty"`
	ContentAvailable int       `json:"content-available,omitempty"`
	MutableContent   int       `json:"mutable-content,omitempty"`
	ContentChanged   bool      `json:"content-changed,omitempty"`
}

type apsAlert struct {
	Title    string `json:"title,omitempty"`
	Subtitle string `json:"subtitle,omitempty"`
	Body     string `json:"body,omitempty"`
	// Sound is set only for a Live Activity; other push types have it in aps.
	Sound string `json:"sound,omitempty"`
}

// apnsPayload renders the payload as if the notification's ID were id, and
// checks its size.
func (n *Notification) apnsPayload(id string) ([]byte, error) {
	payload, err := strictjson.Encode(apnsBody{Aps: n.aps(), Image: n.Image, ID: id})
	if err != nil {
		return nil, err
	}
	if len(n.Data) > 0 {
		data, err := strictjson.Encode(n.Data)
		if err != nil {
			return nil, err
		}
		payload = spliceJSON(payload, data)
	}
	if !absent(n.APNs) {
		merged, err := overlay(payload, n.APNs)
		if err != nil {
			return nil, fmt.Errorf("lay the block apns over the payload: %w", err)
		}
		if payload, err = strictjson.Encode(merged); err != nil {
			return nil, err
		}
	}
	limit := MaxAPNsPayload
	if n.PushType == PushVoIP {
		limit = MaxAPNsVoIPPayload
	}
	if len(payload) > limit {
		return nil, fielderrors.New("", "is %d bytes as APNs' payload, at most %d are taken", len(payload), limit)
	}
	return payload, nil
}

// aps derives the dictionary aps; nil if the push type has none.
func (n *Notification) aps() *aps {
	switch n.pushType() {
	case PushAlert:
		a := aps{Badge: n.Badge, Sound: n.Sound, Category: n.Category, ThreadID: n.Thread}
		if n.Title != "" || n.Subtitle != "" || n.Body != "" {
			a.Alert = &apsAlert{Title: n.Title, Subtitle: n.Subtitle, Body: n.Body}
		}
		if n.Image != "" {
			a.MutableContent = 1
		}
		return &a
	case PushLiveActivity:
		a := aps{}
		if n.Title != "" || n.Body != "" || n.Sound != "" {
			a.Alert = &apsAlert{Title: n.Title, Body: n.Body, Sound: n.Sound}
		}
		return &a
	case PushBackground:
		return &aps{ContentAvailable: 1}
	case PushWidgets, PushControls:
		return &aps{ContentChanged: true}
	}
	return nil
}
