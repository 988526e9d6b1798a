package store

import "fmt"

// A MalformedError is the reason why a payload on the queue is not a job. It never becomes a job:
// set it aside.
type MalformedError struct {
	Reason MalformedReason
	// Err is the detail, without the payload's values; nil if there is none. It may be of type
	// fielderrors.Faults, with pointers into the payload.
	Err error
}

// MalformedReasons are a closed set, so that they can label a metric.
type MalformedReason string

const (
	// MalformedJSON: truncated, or not a JSON object.
	MalformedJSON MalformedReason = "not_json"
	// MalformedVersion: no version, or a version that this build does not read.
	MalformedVersion MalformedReason = "unknown_version"
	// MalformedSize: larger than MaxPayload.
	MalformedSize MalformedReason = "too_large"
	// MalformedNotification: a notification that does not fit or is not valid.
	MalformedNotification MalformedReason = "invalid"
	// MalformedEnvelope: asynq's message around the payload cannot be read.
	MalformedEnvelope MalformedReason = "envelope"
	// MalformedForeign: a program other than a Producer has enqueued the task.
	MalformedForeign MalformedReason = "foreign"
)

// MalformedReasons lists all reasons.
var MalformedReasons = []MalformedReason{MalformedJSON, MalformedVersion, MalformedSize, MalformedNotification, MalformedEnvelope, MalformedForeign}

// Error returns the reason and the detail.
func (e *MalformedError) Error() string {
	if e.Err == nil {
		return "malformed job: " + string(e.Reason)
	}
	return fmt.Sprintf("malformed job: %s: %v", e.Reason, e.Err)
}

// Unwrap returns Err.
func (e *MalformedError) Unwrap() error { return e.Err }
