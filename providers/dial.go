package providers

import (
	"context"
	"net"
	"time"

	"github.com/pushpace/pushpace/internal/base/batchconn"
)

// The limits of a provider's dialer.
const (
	// DialTimeout bounds the time to make a connection.
	DialTimeout = 5 * time.Second
	// KeepAlive is the time between two probes of a silent connection.
	KeepAlive = 30 * time.Second
)

// A DialFunc makes a connection, as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Dialing returns a DialFunc like dial. Its connections combine writes, and are closed when life
// ends, even if they are made at that moment.
func Dialing(life context.Context, dial DialFunc) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c = batchconn.New(c)
		return &conn{Conn: c, unbind: context.AfterFunc(life, func() { _ = c.Close() })}, nil
	}
}

// A conn is closed when the sender's life ends, unless it was closed before.
type conn struct {
	net.Conn
	unbind func() bool
}

func (c *conn) Close() error {
	c.unbind()
	return c.Conn.Close()
}
