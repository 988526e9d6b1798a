package store

import "fmt"

// A MalformedError says why a payload of the queue is no job. Such a payload
// never becomes one: set it aside.
type MalformedError struct {
	Reason MalformedReason
	// Err says more, without the payload's values; it may be of type faults.Faults, whose
	// pointers start at the payload. Nil if there is no more to say.
	Err error
}

// A MalformedReason is from a closed set, fit for a metric's label.
type MalformedReason string

// The reasons why a payload is malformed.
const (
	// MalformedJSON: truncated, or not a JSON object.
	MalformedJSON MalformedReason = "not_json"
	// MalformedVersion: it names no version, or one that this build does not read.
	MalformedVersion MalformedReason = "unknown_version"
	// MalformedSize: larger than MaxPayload.
	MalformedSize MalformedReason = "too_large"
	// MalformedNotification: what it holds does not fit or is not valid.
	MalformedNotification MalformedReason = "invalid"
	// MalformedEnvelope: the queue's own message around it cannot be read.
	MalformedEnvelope MalformedReason = "envelope"
	// MalformedForeign: another program than a Producer has put the task on the queue.
	MalformedForeign MalformedReason = "foreign"
)

// MalformedReasons are all of them.
var MalformedReasons = []MalformedReason{MalformedJSON, MalformedVersion, MalformedSize, MalformedNotification, MalformedEnvelope, MalformedForeign}

// Error names the reason, and more if there is.
func (e *MalformedError) Error() string {
	if e.Err == nil {
		return "malformed job: " + string(e.Reason)
	}
	return fmt.Sprintf("malformed job: %s: %v", e.Reason, e.Err)
}

// Unwrap returns Err.
func (e *MalformedError) Unwrap() error { return e.Err }
