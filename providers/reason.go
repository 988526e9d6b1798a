package providers

// A Reason names the cause of an outcome, in the provider's own word if it has one ("Unregistered",
// "QUOTA_EXCEEDED"). Each provider's package lists its reasons; the reasons here are common to all.
type Reason string

// The reasons that do not come from a provider's answer.
const (
	// OK: delivered.
	OK Reason = "ok"
	// DryRun: the push succeeded in a dry run; no device shows it.
	DryRun Reason = "dry_run"
	// DialFailed: no connection could be made; nothing was sent.
	DialFailed Reason = "dial_failed"
	// TimedOut: no answer within the deadline.
	TimedOut Reason = "timed_out"
	// ConnectionLost: the connection broke before the answer came.
	ConnectionLost Reason = "connection_lost"
	// Cancelled: the caller gave up before the answer came.
	Cancelled Reason = "cancelled"
	// TooLate: there was no connection before the push had to leave. Nothing was sent.
	TooLate Reason = "too_late"
	// OriginBackoff: the target's server has failed several times in a row, or has not answered
	// yet; nothing was tried or sent. RetryAfter is the time until the next try.
	OriginBackoff Reason = "origin_backoff"
	// TLSRefused: one side does not accept the other's certificate.
	TLSRefused Reason = "tls_refused"
	// Unreadable: the answer does not come from the provider; it may be a proxy's page.
	Unreadable Reason = "unreadable_answer"
	// Unknown: the provider gave a reason that its documentation does not list.
	Unknown Reason = "unknown_reason"
	// Invalid: the notification cannot be rendered for this platform.
	Invalid Reason = "invalid"
	// UnknownApp: the notification's app is not configured.
	UnknownApp Reason = "unknown_app"
	// UnknownCategory: the notification's category is not configured, and unknown categories are
	// refused.
	UnknownCategory Reason = "unknown_category"
	// LineFull: the user's notifications hold all slots that they may, and this notification is new
	// and not critical.
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
