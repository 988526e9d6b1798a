package fcm

import (
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/fcm/internal/wire"
)

// FCM's own reasons. The ones in capitals are its words: an errorCode of
// FcmError, or where that is missing the status of google.rpc.
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
	// CredentialsRefused: the token endpoint gives no access token for the
	// service account.
	CredentialsRefused = wire.CredentialsRefused
	// TokenEndpointUnreachable: there is no access token, since the token endpoint
	// cannot be reached, does not answer in time, or is out of order.
	TokenEndpointUnreachable = wire.TokenEndpointUnreachable
)

// Reasons returns this package's own reasons, without the common ones of package
// providers.
func Reasons() []providers.Reason { return wire.Reasons() }
