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
	// KeepAlive is the time between two probes of a connection that is silent.
	KeepAlive = 30 * time.Second
)

// A DialFunc makes a connection, as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Dialing returns dial with writes that go out together. Every connection ends with
// life at the latest, also one that is made while life ends.
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

// A conn is closed with the sender, unless it was before.
type conn struct {
	net.Conn
	unbind func() bool
}

func (c *conn) Close() error {
	c.unbind()
	return c.Conn.Close()
}
