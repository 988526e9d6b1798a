package pipeline

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/internal/base/acknowledged"
)

// A gate keeps groups from a server that is known to be away, so that only those wait for
// it who find out. It closes at a time-out, where nobody answers a dial, or where replicas do
// not acknowledge a write, for 250 ms; then one group tries, and it stays closed for twice as
// long at each that fails, for a second at most. A connection that is lost closes nothing: the next one may be made.
//
// The zero value is open.
type gate struct {
	closed atomic.Bool // whether there is a cause

	mu    sync.Mutex
	cause error
	until time.Time // when one may try
	wait  time.Duration
	tried bool // one is trying
}

const (
	leastClosed = 250 * time.Millisecond
	mostClosed  = time.Second
)

// enter returns why a group may not go on. One that may has to leave, and to say whether it
// tries.
func (g *gate) enter() (tries bool, err error) {
	if !g.closed.Load() {
		return false, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cause == nil {
		return false, nil
	}
	if g.tried || time.Now().Before(g.until) {
		return false, g.cause
	}
	g.tried = true
	return true, nil
}

// leave takes in how a group's round trip ended.
func (g *gate) leave(tries bool, err error) {
	if err == nil && !g.closed.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !away(err):
		g.cause, g.wait, g.tried = nil, 0, false
	case g.cause == nil || tries: // of those that were under way together, one counts
		g.cause, g.wait, g.tried = err, min(max(leastClosed, 2*g.wait), mostClosed), false
		g.until = time.Now().Add(g.wait)
	}
	g.closed.Store(g.cause != nil)
}

// away reports whether the error of a connection tells of a server that does not answer, or
// whose replicas do not.
func away(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, acknowledged.ErrUnacknowledged) {
		return true
	}
	var network net.Error
	if errors.As(err, &network) && network.Timeout() {
		return true
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
