package providers

import (
	"context"
	"sync"
)

// A Line bounds the pushes in flight to one push service. The first push goes alone until it has a
// connection: a burst on a cold transport would open a connection for each push. It is safe for
// concurrent use.
type Line struct {
	slots chan struct{}
	// alone holds one element while a push tries for the first connection.
	alone chan struct{}
	// warm is closed once there was a connection.
	warm chan struct{}
	once sync.Once
}

// NewLine returns a line of at most inFlight pushes, which must be 1 or more.
func NewLine(inFlight int) *Line {
	return &Line{
		slots: make(chan struct{}, inFlight),
		alone: make(chan struct{}, 1),
		warm:  make(chan struct{}),
	}
}

// Enter waits for a push's turn. When err is nil the caller calls leave once
// the push is over.
func (l *Line) Enter(ctx context.Context) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case <-l.warm:
		return func() { <-l.slots }, nil
	default:
	}
	select {
	case <-l.warm:
		return func() { <-l.slots }, nil
	case l.alone <- struct{}{}:
		return func() { <-l.alone; <-l.slots }, nil
	case <-ctx.Done():
		<-l.slots
		return nil, ctx.Err()
	}
}

// Connected ends the wait for the first connection.
func (l *Line) Connected() {
	select {
	case <-l.warm:
	default:
		l.once.Do(func() { close(l.warm) })
	}
}
