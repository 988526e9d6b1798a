// Package batchconn batches the writes of many goroutines to one connection, to save system calls.
// Start with New, and Close the Conn.
package batchconn

import (
	"net"
	"sync"
	"time"
)

// maxPending bounds the unsent bytes. A Write beyond it waits.
const maxPending = 64 << 10

// lastRead is how long Read still works after sending has failed.
const lastRead = time.Second

// A Conn is a connection with its own sending goroutine: all bytes written during a send go out
// together in the next send. HTTP/2 writes twice for each request, and a write's system call is
// half of a push's cost.
//
// Bytes of a successful Write may not have been sent yet, as with the kernel's buffer.
// After sending has failed, every later Write fails, and Read ends within lastRead. Close discards
// unsent bytes.
type Conn struct {
	net.Conn

	mu      sync.Mutex
	pending []byte
	err     error
	// work is signalled if there are bytes to send or the connection is closed; room if there is
	// room to write or the connection has failed.
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
			// The peer may have answered before it ended the connection. A close here would lose
			// the answer.
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
