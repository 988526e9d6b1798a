package providers

// A Reason names why an attempt ended as it did, in the provider's own word
// where it has one ("Unregistered", "QUOTA_EXCEEDED"). Each provider's package
// lists its own; these are common to all.
type Reason string

// The reasons that do not come from a provider's answer.
const (
	// OK: delivered.
	OK Reason = "ok"
	// DryRun: the provider accepted it in a dry run; no device shows it.
	DryRun Reason = "dry_run"
	// DialFailed: no connection could be made; nothing was sent.
	DialFailed Reason = "dial_failed"
	// TimedOut: no answer within the deadline.
	TimedOut Reason = "timed_out"
	// ConnectionLost: the connection broke before the answer came.
	ConnectionLost Reason = "connection_lost"
	// Cancelled: the caller gave up before the answer came.
	Cancelled Reason = "cancelled"
	// TooLate: its instant had passed before there was a connection for it;
	// nothing was sent.
	TooLate Reason = "too_late"
	// OriginBackoff: its server has failed several times in a row, or has yet to show that
	// it answers; nothing was sent, and nothing tried. RetryAfter is for how long.
	OriginBackoff Reason = "origin_backoff"
	// TLSRefused: one side does not accept the other's certificate.
	TLSRefused Reason = "tls_refused"
	// Unreadable: the answer is not one of the provider's, such as a proxy's page.
	Unreadable Reason = "unreadable_answer"
	// Unknown: the provider gave a reason that its documentation does not list.
	Unknown Reason = "unknown_reason"
	// Invalid: the notification cannot be rendered for this platform.
	Invalid Reason = "invalid"
	// UnknownApp: the notification's app is not configured.
	UnknownApp Reason = "unknown_app"
	// UnknownCategory: the notification's category is not configured, and such are
	// refused.
	UnknownCategory Reason = "unknown_category"
	// LineFull: as many of the user's notifications hold slots as may, and this one is
	// new and not critical.
	LineFull Reason = "line_full"
	// DeadTokenSpike: so many tokens are dead that the configuration may be wrong.
	DeadTokenSpike Reason = "dead_token_spike"
	// NoProvider: the app has no provider for the target's platform.
	NoProvider Reason = "no_provider"
	// Unrecorded: the results of too many attempts are unknown.
	Unrecorded Reason = "unrecorded"
)

// Reasons returns the reasons above.
func Reasons() []Reason {
	return []Reason{
		OK, DryRun, DialFailed, TimedOut, ConnectionLost, Cancelled, TooLate, OriginBackoff, TLSRefused, Unreadable, Unknown, Invalid,
		UnknownApp, UnknownCategory, LineFull, DeadTokenSpike, NoProvider, Unrecorded,
	}
}
