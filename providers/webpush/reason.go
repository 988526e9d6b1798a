package webpush

import "github.com/pushpace/pushpace/providers"

// The reasons of Web Push. Push services share no words, so these are ours.
const (
	// NotFound, Gone: the subscription has ended.
	NotFound providers.Reason = "not_found"
	Gone     providers.Reason = "gone"
	// InvalidToken: the endpoint is not in the service's form.
	InvalidToken providers.Reason = "invalid_token"
	// EndpointDoubted: the service refuses the endpoint in a way that sometimes hits valid
	// endpoints.
	EndpointDoubted providers.Reason = "endpoint_doubted"
	// EndpointRefused: pushpace does not send to the endpoint's host, port or address.
	EndpointRefused providers.Reason = "endpoint_refused"
	// VapidMismatch: the subscription was made with a different key.
	VapidMismatch providers.Reason = "vapid_mismatch"
	// Unauthorized: the service refuses the token that authenticates the sender.
	Unauthorized providers.Reason = "unauthorized"
	// BadRequest: the service refuses the message.
	BadRequest providers.Reason = "bad_request"
	// TooLarge: the message is too large for the device.
	TooLarge providers.Reason = "too_large"
	// TooManyRequests: too many messages to the device.
	TooManyRequests providers.Reason = "too_many_requests"
	// Throttled: too many messages of the app.
	Throttled providers.Reason = "throttled"
	// Redirected: the service redirects, which pushpace does not follow.
	Redirected providers.Reason = "redirected"
	// ServerError: the service is in trouble.
	ServerError providers.Reason = "server_error"
)

// Reasons lists the reasons of this package's outcomes besides package providers' reasons.
func Reasons() []providers.Reason {
	return []providers.Reason{
		NotFound, Gone, InvalidToken, EndpointDoubted, EndpointRefused, VapidMismatch, Unauthorized, BadRequest,
		TooLarge, TooManyRequests, Throttled, Redirected, ServerError,
	}
}
