package providertest

import (
	"context"
	"sync"
)

// A Deadline is a context. Its deadline passes when the test calls Pass.
type Deadline struct {
	context.Context
	done chan struct{}
	// Pass makes the deadline pass.
	Pass func()
}

// NewDeadline returns a Deadline that only Pass ends.
func NewDeadline(parent context.Context) *Deadline {
	d := &Deadline{Context: parent, done: make(chan struct{})}
	d.Pass = sync.OnceFunc(func() { close(d.done) })
	return d
}

// Done is closed when the deadline has passed.
func (d *Deadline) Done() <-chan struct{} { return d.done }

// Err returns nil until the deadline has passed, and then context.DeadlineExceeded.
func (d *Deadline) Err() error {
	select {
	case <-d.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
