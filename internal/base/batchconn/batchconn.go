// Package batchconn sends what many goroutines write to one connection in few
// system calls.
package batchconn

import (
	"net"
	"sync"
	"time"
)

// maxPending bounds what waits to be sent, in bytes. Who writes more waits.
const maxPending = 64 << 10

// lastRead is how long Read goes on after sending has failed.
const lastRead = time.Second

// A Conn is a connection whose writes are sent by a goroutine of its own: what
// is written while it sends goes out together next. HTTP/2 writes twice for each
// request, and half of a push's cost is such a system call.
//
// A Write that returns without an error may not have been sent yet, as is so
// with the kernel's buffer. Once sending has failed every later Write fails, and
// Read ends soon, with what has arrived until then. Close sends nothing further.
type Conn struct {
	net.Conn

	mu      sync.Mutex
	pending []byte
	err     error
	// work is signalled when there is something to send or the connection is
	// closed, room when there is room to write or it has failed.
	work, room sync.Cond
	sending    sync.WaitGroup
}

// New returns conn with batched writes. Close it.
func New(conn net.Conn) *Conn {
	c := &Conn{Conn: conn}
	c.work.L, c.room.L = &c.mu, &c.mu
	c.sending.Go(c.send)
	return c
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && len(c.pending) >= maxPending {
		c.room.Wait()
	}
	if c.err != nil {
		return 0, c.err
	}
	if len(c.pending) == 0 {
		c.work.Signal()
	}
	c.pending = append(c.pending, p...)
	return len(p), nil
}

// send sends until the connection fails or is closed.
func (c *Conn) send() {
	var batch []byte
	for {
		c.mu.Lock()
		for c.err == nil && len(c.pending) == 0 {
			c.work.Wait()
		}
		if c.err != nil {
			c.mu.Unlock()
			return
		}
		batch, c.pending = c.pending, batch[:0]
		c.room.Broadcast()
		c.mu.Unlock()
		if _, err := c.Conn.Write(batch); err != nil {
			c.fail(err)
			// Who ends a connection has answered before: closed here, what it says
			// would be lost.
			_ = c.Conn.SetReadDeadline(time.Now().Add(lastRead))
			return
		}
	}
}

// fail makes every later Write fail.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	c.work.Signal()
	c.room.Broadcast()
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.fail(net.ErrClosed)
	err := c.Conn.Close()
	c.sending.Wait()
	return err
}
