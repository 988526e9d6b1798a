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

// A gate rejects groups at once while a server is known to be unreachable, so that few callers wait
// for the server. It closes after a time-out, a failed dial, or a write that replicas do not acknowledge.
// After 250 ms one group probes the server. Each failed probe doubles the delay, up to a second. A
// lost connection does not close the gate, as the next dial may succeed.
//
// The zero value is open.
type gate struct {
	closed atomic.Bool // cause is set

	mu      sync.Mutex
	cause   error
	until   time.Time // when a group may probe
	wait    time.Duration
	probing bool // a group is probing
}

const (
	minClosed = 250 * time.Millisecond
	maxClosed = time.Second
)

// enter returns an error if the group is rejected. Otherwise the caller must call leave, with tries.
func (g *gate) enter() (tries bool, err error) {
	if !g.closed.Load() {
		return false, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cause == nil {
		return false, nil
	}
	if g.probing || time.Now().Before(g.until) {
		return false, g.cause
	}
	g.probing = true
	return true, nil
}

// leave records the result of a group's round trip.
func (g *gate) leave(tries bool, err error) {
	if err == nil && !g.closed.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !isUnreachable(err):
		g.cause, g.wait, g.probing = nil, 0, false
	case g.cause == nil || tries: // of concurrent failures only the first counts
		g.cause, g.wait, g.probing = err, min(max(minClosed, 2*g.wait), maxClosed), false
		g.until = time.Now().Add(g.wait)
	}
	g.closed.Store(g.cause != nil)
}

// isUnreachable reports whether an error means that the server does not answer, or too few of its
// replicas do.
func isUnreachable(err error) bool {
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
