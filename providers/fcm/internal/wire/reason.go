package wire

import "github.com/pushpace/pushpace/providers"

// The reasons of FCM. Those in capitals are its words: an errorCode of FcmError, or without an
// FcmError the status of google.rpc. Source: "FCM error codes" and the REST reference of FcmError.
const (
	Unregistered        providers.Reason = "UNREGISTERED"
	SenderIDMismatch    providers.Reason = "SENDER_ID_MISMATCH"
	InvalidArgument     providers.Reason = "INVALID_ARGUMENT"
	QuotaExceeded       providers.Reason = "QUOTA_EXCEEDED"
	Unavailable         providers.Reason = "UNAVAILABLE"
	Internal            providers.Reason = "INTERNAL"
	ThirdPartyAuthError providers.Reason = "THIRD_PARTY_AUTH_ERROR"
	UnspecifiedError    providers.Reason = "UNSPECIFIED_ERROR"

	Unauthenticated   providers.Reason = "UNAUTHENTICATED"
	PermissionDenied  providers.Reason = "PERMISSION_DENIED"
	NotFound          providers.Reason = "NOT_FOUND"
	ResourceExhausted providers.Reason = "RESOURCE_EXHAUSTED"
	DeadlineExceeded  providers.Reason = "DEADLINE_EXCEEDED"

	// InvalidToken: INVALID_ARGUMENT, and the argument is the token.
	InvalidToken providers.Reason = "invalid_token"
	// CredentialsRefused: the token endpoint refuses the service account an access token.
	CredentialsRefused providers.Reason = "credentials_refused"
	// TokenEndpointUnreachable: there is no access token, because the token endpoint cannot be
	// reached, does not answer in time, or is out of order.
	TokenEndpointUnreachable providers.Reason = "token_endpoint_unreachable"
)

// Reasons returns this package's own reasons, without the common reasons of package providers.
func Reasons() []providers.Reason {
	return []providers.Reason{
		Unregistered, SenderIDMismatch, InvalidArgument, QuotaExceeded, Unavailable, Internal,
		ThirdPartyAuthError, UnspecifiedError, Unauthenticated, PermissionDenied, NotFound,
		ResourceExhausted, DeadlineExceeded, InvalidToken, CredentialsRefused, TokenEndpointUnreachable,
	}
}
