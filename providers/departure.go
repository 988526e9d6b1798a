package providers

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// A departure bounds when a notification may leave. Once one of its requests is
// on its way, the others follow whenever they can.
type departure struct {
	latest time.Time
	gone   atomic.Int32 // requests that left, and that the server did not leave aside
}

type departureKey struct{}

// DepartBy returns a context for what is sent to the targets of one notification:
// none of it is to leave when nothing has left by then. A Sender that has no
// connection for it in time answers TooLate.
func DepartBy(ctx context.Context, latest time.Time) context.Context {
	return context.WithValue(ctx, departureKey{}, &departure{latest: latest})
}

type leaveKey struct{}

// LeaveBy returns a context for one request that is not to leave after then, nor after
// what ctx says, whatever has left of the same notification.
func LeaveBy(ctx context.Context, latest time.Time) context.Context {
	if before, ok := ctx.Value(leaveKey{}).(time.Time); ok && before.Before(latest) {
		return ctx
	}
	return context.WithValue(ctx, leaveKey{}, latest)
}

type leaveWhileKey struct{}

// LeaveWhile returns a context for requests that are not to leave once may answers no,
// which it is asked just before each does, whatever has left of the same notification.
func LeaveWhile(ctx context.Context, may func() bool) context.Context {
	return context.WithValue(ctx, leaveWhileKey{}, may)
}

// Depart is for Senders, as soon as there is a connection to write to: it answers
// whether the request may leave.
func Depart(ctx context.Context) bool {
	if Missed(ctx) {
		return false
	}
	if d, ok := ctx.Value(departureKey{}).(*departure); ok {
		d.gone.Add(1)
	}
	return true
}

// Return is for Senders: the request that left was not processed, and is to leave
// once more.
func Return(ctx context.Context) {
	if d, ok := ctx.Value(departureKey{}).(*departure); ok {
		d.gone.Add(-1)
	}
}

// Missed reports whether it is too late for a request to leave.
func Missed(ctx context.Context) bool {
	if may, ok := ctx.Value(leaveWhileKey{}).(func() bool); ok && !may() {
		return true
	}
	if latest, ok := ctx.Value(leaveKey{}).(time.Time); ok && !time.Now().Before(latest) {
		return true
	}
	d, ok := ctx.Value(departureKey{}).(*departure)
	return ok && d.gone.Load() == 0 && time.Now().After(d.latest)
}

// ErrTooLate is the error of a transport where Depart says no.
var ErrTooLate = errors.New("there was no connection for it at its instant")

// MissedOutcome is the outcome of a request that did not leave.
func MissedOutcome() Outcome {
	return Outcome{Kind: Retry, Reason: TooLate, Concerns: ConcernsMessage, Err: ErrTooLate}
}
