package redisconn

import (
	"context"
	"net"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// progressHook is a hook that restarts the time-out at each answer, so that it bounds the silence of
// Redis and not the work: the last command of a pipeline waits for all earlier answers.
type progressHook struct{}

func (progressHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		p := &progressConn{Conn: conn}
		if system, ok := conn.(syscall.Conn); ok { // go-redis uses it to check whether the connection is open
			return struct {
				*progressConn
				syscall.Conn
			}{p, system}, nil
		}
		return p, nil
	}
}

func (progressHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (progressHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A progressConn is a connection that restarts its read deadline when bytes arrive. One goroutine at a
// time reads it.
type progressConn struct {
	net.Conn
	wait time.Duration // 0 for no limit
}

// SetReadDeadline implements net.Conn.
func (p *progressConn) SetReadDeadline(t time.Time) error {
	if p.wait = 0; !t.IsZero() {
		p.wait = time.Until(t)
	}
	return p.Conn.SetReadDeadline(t)
}

// SetDeadline implements net.Conn.
func (p *progressConn) SetDeadline(t time.Time) error {
	if err := p.SetReadDeadline(t); err != nil {
		return err
	}
	return p.SetWriteDeadline(t)
}

// Read implements net.Conn.
func (p *progressConn) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if n > 0 && p.wait > 0 {
		_ = p.Conn.SetReadDeadline(time.Now().Add(p.wait)) // on failure, the next read returns the error
	}
	return n, err
}
