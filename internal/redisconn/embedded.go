package redisconn

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/pushpace/pushpace/internal/config"
)

// expiryTick is how often the embedded Redis looks for keys whose time is over.
// A key ends up to one tick early.
const expiryTick = 100 * time.Millisecond

// embedded is a Redis inside the process, on the loopback, with a password that
// nobody else knows. It keeps nothing when the process ends.
type embedded struct {
	redis *miniredis.Miniredis
	stop  chan struct{}
	done  chan struct{}
}

func openEmbedded(ctx context.Context, cfg config.Redis, poolSize int) (*Conn, error) {
	e := &embedded{redis: miniredis.NewMiniRedis(), stop: make(chan struct{}), done: make(chan struct{})}
	cfg.Password = config.Secret(rand.Text())
	e.redis.RequireAuth(string(cfg.Password))
	if err := e.redis.Start(); err != nil {
		return nil, fmt.Errorf("the embedded Redis does not start: %w", err)
	}
	go e.expire()
	cfg.Address.Hosts = []string{e.redis.Addr()}
	opts, err := options(cfg, poolSize)
	if err != nil {
		_ = e.Close()
		return nil, err
	}
	conn := newConn(opts, 0)
	conn.embedded = e
	if err := conn.Client.Ping(ctx).Err(); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("the embedded Redis does not answer: %w", err)
	}
	return conn, nil
}

// expire lets time pass for the keys' time to live, which miniredis does not do
// by itself. A pass costs more the more keys there are, hence the pause that
// grows with it.
func (e *embedded) expire() {
	defer close(e.done)
	last := time.Now()
	timer := time.NewTimer(expiryTick)
	defer timer.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-timer.C:
		}
		now := time.Now()
		e.redis.FastForward(now.Sub(last))
		last = now
		timer.Reset(max(expiryTick, 10*time.Since(now)))
	}
}

// Close ends it, once.
func (e *embedded) Close() error {
	close(e.stop)
	<-e.done
	e.redis.Close()
	return nil
}
