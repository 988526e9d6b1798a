package webpush

import "github.com/pushpace/pushpace/providers"

// The reasons of Web Push. Push services share no words, so these are ours.
const (
	// NotFound, Gone: the subscription has ended.
	NotFound providers.Reason = "not_found"
	Gone     providers.Reason = "gone"
	// InvalidToken: the service does not know the endpoint as one of its own.
	InvalidToken providers.Reason = "invalid_token"
	// EndpointDoubted: the service refuses the endpoint as it does at times with good ones.
	EndpointDoubted providers.Reason = "endpoint_doubted"
	// EndpointRefused: the endpoint is at a host, a port or an address that is not sent to.
	EndpointRefused providers.Reason = "endpoint_refused"
	// VapidMismatch: the subscription was made with another key.
	VapidMismatch providers.Reason = "vapid_mismatch"
	// Unauthorized: the service does not take the token that names the sender.
	Unauthorized providers.Reason = "unauthorized"
	// BadRequest: the service does not take the message.
	BadRequest providers.Reason = "bad_request"
	// TooLarge: the message is too large for the device.
	TooLarge providers.Reason = "too_large"
	// TooManyRequests: too many messages to the device.
	TooManyRequests providers.Reason = "too_many_requests"
	// Throttled: too many messages of the app.
	Throttled providers.Reason = "throttled"
	// Redirected: the service names another address, which is not followed.
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
