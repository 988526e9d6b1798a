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
	// Reason is the provider's own word for a refusal. Empty means the usual reason for Status.
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
	// Fault is a fault of the connection. Every fault except Drain replaces the answer.
	Fault Fault
}

// Accepts reports whether the push is taken: it is in the ledger, even if the sender gets no
// answer.
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

// A Fault is a fault of the connection.
type Fault uint8

// The faults.
const (
	NoFault Fault = iota
	// Close takes the push, then breaks the connection without an answer.
	Close
	// GoAway takes the push, then sends a GOAWAY that names the push as processed, and breaks the
	// connection without an answer.
	GoAway
	// GoAwayUnprocessed refuses the push with a GOAWAY and a lower last stream ID:
	// the sender knows that the push was not processed.
	GoAwayUnprocessed
	// BlackHole takes the push and never answers it.
	BlackHole
	// Page answers with a proxy's HTML page and Status (502 if 0); the push is
	// not taken.
	Page
	// Drain sends a GOAWAY, takes no more pushes, and ends the connection after the answers to the
	// taken pushes, like a service that restarts.
	Drain
)

var faults = map[Fault]string{
	NoFault: "", Close: "close", GoAway: "goaway", GoAwayUnprocessed: "goaway_unprocessed",
	BlackHole: "black_hole", Page: "page", Drain: "drain",
}

// String returns the fault's name: close, goaway, goaway_unprocessed, black_hole, page or
// drain, and nothing for NoFault.
func (f Fault) String() string { return faults[f] }
