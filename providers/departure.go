package providers

import (
	"errors"
	"sync/atomic"
	"time"
)

// A Departure bounds when a push may leave. The zero value sets no bound.
type Departure struct {
	// Before is the time before which the push must leave. Zero: at any time.
	Before time.Time
	// May is called just before the push leaves, from any goroutine. If false, the push is not
	// sent. Nil: always true.
	May func() bool
	// Started counts the pushes of the notification that have left. Nil: no count.
	Started *atomic.Int32
}

// Start reports whether the push may leave. If it may, Start counts it. A Sender calls it when it
// has a connection, just before it writes.
func (d Departure) Start() bool {
	if d.TooLate() {
		return false
	}
	if d.Started != nil {
		d.Started.Add(1)
	}
	return true
}

// Undo reverts Start: the provider has not processed the push. Call Start again before the push
// leaves again.
func (d Departure) Undo() {
	if d.Started != nil {
		d.Started.Add(-1)
	}
}

// TooLate reports whether the push may not leave any more.
func (d Departure) TooLate() bool {
	return d.May != nil && !d.May() || !d.Before.IsZero() && !time.Now().Before(d.Before)
}

// ErrTooLate is a transport's error for a push that did not start.
var ErrTooLate = errors.New("the push had no connection before the time by which it had to leave")

// TooLateOutcome is the outcome of a push that did not start.
func TooLateOutcome() Outcome {
	return Outcome{Kind: Retry, Reason: TooLate, Concerns: ConcernsMessage, Err: ErrTooLate}
}
