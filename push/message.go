package push

import "time"

// An APNsMessage is the request to APNs for one target: the headers and the body.
type APNsMessage struct {
	// ID is the apns-id: the UUIDv5 of the notification's ID and its target, so that a retry has the same
	// ID.
	ID string
	// PushType is the apns-push-type.
	PushType string
	// TopicSuffix follows the app's bundle ID in the apns-topic, such as ".voip"; empty
	// for most push types.
	TopicSuffix string
	// CollapseID is the apns-collapse-id, at most 64 bytes; empty leaves the
	// header out.
	CollapseID string
	// Priority is the apns-priority: 10 or 5.
	Priority int
	// Expiration is the apns-expiration; zero leaves the header out.
	Expiration time.Time
	// Payload is the body, as it goes over the wire.
	Payload []byte
}

// A WebPushMessage is the request to a browser's push service for one target: the headers, and
// the body before its encryption for the target's keys.
type WebPushMessage struct {
	// Payload is the data for the site's service worker, 1 to MaxWebPushPayload bytes.
	Payload []byte
	// TTL is how long the service stores the message, in seconds, at least 1.
	TTL int
	// Urgency is high or normal.
	Urgency string
	// Topic is 32 characters of base64url; empty leaves the header out.
	Topic string
}

// An FCMMessage is the message to FCM for one target.
type FCMMessage struct {
	// JSON is the value of "message" in the v1 API's send request, as it goes
	// over the wire, with the token or FID.
	JSON []byte
}
