// Package standin holds the common parts of the stand-ins for the push services: scripted
// answers and faults, and the ledger of accepted pushes. The stand-ins are providers/apns/apnstest, providers/fcm/fcmtest and
// providers/webpush/webpushtest.
package standin

import (
	"net/http"
	"strconv"
	"time"
)

// An Answer is a stand-in's reaction to one push. The zero value accepts it.
type Answer struct {
	// Status is the HTTP status; 0 means 200, which accepts the push.
	Status int
	// Reason is the provider's own word for a refusal. Empty means the one that
	// usually goes with Status.
	Reason string
	// RetryAfter is sent as the Retry-After header, rounded up to seconds; 0
	// leaves the header out.
	RetryAfter time.Duration
	// RetryAfterDate sends RetryAfter as an HTTP date instead of seconds.
	RetryAfterDate bool
	// Since is the timestamp of a 410 from APNs; zero means an hour ago.
	Since time.Time
	// Delay is added to the server's latency.
	Delay time.Duration
	// Fault is trouble with the connection, for all but Drain instead of an answer.
	Fault Fault
}

// Accepts reports whether the push is taken: it is in the ledger, whether or
// not the sender learns of it.
func (a Answer) Accepts() bool {
	switch a.Fault {
	case NoFault, Drain:
		return a.Status == 0 || a.Status == http.StatusOK
	case Close, GoAway, BlackHole:
		return true
	}
	return false
}

// RetryAfterHeader returns the value of the Retry-After header, empty for none.
func (a Answer) RetryAfterHeader(now time.Time) string {
	if a.RetryAfter <= 0 {
		return ""
	}
	if a.RetryAfterDate {
		at := now.Add(a.RetryAfter + time.Second - 1)
		return at.UTC().Format(http.TimeFormat)
	}
	seconds := (a.RetryAfter + time.Second - 1) / time.Second
	return strconv.FormatInt(int64(seconds), 10)
}

// A Fault is trouble with the connection.
type Fault uint8

// The faults.
const (
	NoFault Fault = iota
	// Close takes the push, then breaks the connection without an answer.
	Close
	// GoAway takes the push, then says GOAWAY, naming it as processed, and
	// breaks the connection without an answer.
	GoAway
	// GoAwayUnprocessed refuses the push with a GOAWAY and a lower last stream ID:
	// the sender knows that the push was not processed.
	GoAwayUnprocessed
	// BlackHole takes the push and never answers it.
	BlackHole
	// Page answers with a proxy's HTML page and Status (502 if 0); the push is
	// not taken.
	Page
	// Drain says GOAWAY, takes nothing more, and ends the connection once all that
	// it has taken is answered, as services do when they restart.
	Drain
)

var faults = map[Fault]string{
	NoFault: "", Close: "close", GoAway: "goaway", GoAwayUnprocessed: "goaway_unprocessed",
	BlackHole: "black_hole", Page: "page", Drain: "drain",
}

// String returns the fault's name: close, goaway, goaway_unprocessed, black_hole, page or
// drain, and nothing for NoFault.
func (f Fault) String() string { return faults[f] }
