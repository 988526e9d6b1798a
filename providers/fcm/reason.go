package fcm

import (
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/fcm/internal/wire"
)

// The reasons of this package. Those in capitals are FCM's words: an errorCode of FcmError, or
// without an FcmError the status of google.rpc.
const (
	Unregistered        = wire.Unregistered
	SenderIDMismatch    = wire.SenderIDMismatch
	InvalidArgument     = wire.InvalidArgument
	QuotaExceeded       = wire.QuotaExceeded
	Unavailable         = wire.Unavailable
	Internal            = wire.Internal
	ThirdPartyAuthError = wire.ThirdPartyAuthError
	UnspecifiedError    = wire.UnspecifiedError
	Unauthenticated     = wire.Unauthenticated
	PermissionDenied    = wire.PermissionDenied
	NotFound            = wire.NotFound
	ResourceExhausted   = wire.ResourceExhausted
	DeadlineExceeded    = wire.DeadlineExceeded

	// InvalidToken: INVALID_ARGUMENT, and the argument is the token.
	InvalidToken = wire.InvalidToken
	// CredentialsRefused: the token endpoint refuses the service account an access token.
	CredentialsRefused = wire.CredentialsRefused
	// TokenEndpointUnreachable: there is no access token, because the token endpoint cannot be
	// reached, does not answer in time, or is out of order.
	TokenEndpointUnreachable = wire.TokenEndpointUnreachable
)

// Reasons returns this package's own reasons, without the common reasons of package providers.
func Reasons() []providers.Reason { return wire.Reasons() }
