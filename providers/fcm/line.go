package fcm

import (
	"context"
	"sync"
)

// maxInFlight bounds the pushes on their way: four connections carry Google's
// 100 streams each, and a request that finds no stream free would wait for a
// further connection that maxConns does not allow.
const maxInFlight = 256

// A line bounds the pushes in flight, and lets the first go alone until it has
// a connection: a burst on a cold transport would open one for each push.
type line struct {
	slots chan struct{}
	// alone holds one element while a push tries for the first connection.
	alone chan struct{}
	// warm is closed once a connection was had.
	warm chan struct{}
	once sync.Once
}

func newLine() *line {
	return &line{
		slots: make(chan struct{}, maxInFlight),
		alone: make(chan struct{}, 1),
		warm:  make(chan struct{}),
	}
}

// enter waits for a push's turn. When err is nil the caller calls leave once
// the push is over.
func (l *line) enter(ctx context.Context) (leave func(), err error) {
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

// connected ends the wait for the first connection.
func (l *line) connected() {
	select {
	case <-l.warm:
	default:
		l.once.Do(func() { close(l.warm) })
	}
}
