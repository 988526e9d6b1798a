package redisconn

import (
	"context"
	"net"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// progresses has a time-out hold from one answer to the next: those of a pipeline come one
// after another, and who stands last in it waits for all before. It is a silence that is
// to end, and not work.
type progresses struct{}

func (progresses) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		p := &progress{Conn: conn}
		if system, ok := conn.(syscall.Conn); ok { // by which go-redis looks whether it is open
			return struct {
				*progress
				syscall.Conn
			}{p, system}, nil
		}
		return p, nil
	}
}

func (progresses) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (progresses) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A progress is a connection that puts off the end of a wait by as long again when
// something has come. It is read by one goroutine at a time.
type progress struct {
	net.Conn
	wait time.Duration // 0 for without end
}

// SetReadDeadline implements net.Conn.
func (p *progress) SetReadDeadline(t time.Time) error {
	if p.wait = 0; !t.IsZero() {
		p.wait = time.Until(t)
	}
	return p.Conn.SetReadDeadline(t)
}

// SetDeadline implements net.Conn.
func (p *progress) SetDeadline(t time.Time) error {
	if err := p.SetReadDeadline(t); err != nil {
		return err
	}
	return p.SetWriteDeadline(t)
}

// Read implements net.Conn.
func (p *progress) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if n > 0 && p.wait > 0 {
		_ = p.Conn.SetReadDeadline(time.Now().Add(p.wait)) // or the next read says why not
	}
	return n, err
}
