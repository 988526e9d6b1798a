// Package embedded runs a Redis inside the process: miniredis, on the loopback interface, with a
// random password. Its data is lost when it ends.
package embedded

import (
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// expiryTick is the interval between removals of expired keys. A key ends up to one tick early.
const expiryTick = 100 * time.Millisecond

// A Redis runs until Close.
type Redis struct {
	server   *miniredis.Miniredis
	password string
	stop     chan struct{}
	done     chan struct{}

	mu   sync.Mutex
	last time.Time // latest time that SetTime has set
}

func Start() (*Redis, error) {
	r := &Redis{server: miniredis.NewMiniRedis(), password: rand.Text(), stop: make(chan struct{}), done: make(chan struct{})}
	r.server.RequireAuth(r.password)
	if err := r.server.Start(); err != nil {
		return nil, fmt.Errorf("the embedded Redis does not start: %w", err)
	}
	go r.expire()
	return r, nil
}

// Options returns the options of a client of r.
func (r *Redis) Options() *redis.Options {
	return &redis.Options{Addr: r.server.Addr(), Password: r.password, ContextTimeoutEnabled: true}
}

// SetTime stops r's clock at now's time, and removes the keys that have expired by that time. If it
// sets the clock back, it restores no key.
func (r *Redis) SetTime(now func() time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := now()
	r.server.SetTime(at)
	if r.last.IsZero() {
		r.last = at
	} else if passed := at.Sub(r.last); passed > 0 {
		r.server.FastForward(passed)
		r.last = at
	}
}

// expire removes expired keys, which miniredis does not do by itself. A pass takes longer the more
// keys there are, so the pause grows with its duration.
func (r *Redis) expire() {
	defer close(r.done)
	last := time.Now()
	timer := time.NewTimer(expiryTick)
	defer timer.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-timer.C:
		}
		now := time.Now()
		r.mu.Lock()
		if r.last.IsZero() { // r uses the process's clock
			r.server.FastForward(now.Sub(last))
		}
		r.mu.Unlock()
		last = now
		timer.Reset(max(expiryTick, 10*time.Since(now)))
	}
}

// Close ends the server and its connections. Call it once.
func (r *Redis) Close() {
	close(r.stop)
	<-r.done
	r.server.Close()
}
