package throttle

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/pushpace/pushpace/internal/redistest"
)

// A clockedLine is a limiter for one user on its own server, with a clock that the test sets.
type clockedLine struct {
	t       *testing.T
	server  *miniredis.Miniredis
	clock   *fakeClock
	limiter *Redis
}

func newClockedLine(t *testing.T) *clockedLine {
	l := &clockedLine{t: t, server: miniredis.RunT(t), clock: newFakeClock()}
	l.limiter = newLimiter(t, redistest.Connect(t, &redis.Options{Addr: l.server.Addr()}), Options{Timeout: time.Minute, Now: l.clock.now})
	l.server.SetTime(l.clock.now())
	return l
}

// newLimiter returns a limiter that the test's end closes.
func newLimiter(t testing.TB, client redis.UniversalClient, o Options) *Redis {
	l := NewRedis(client, o)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func (l *clockedLine) advance(d time.Duration) {
	l.clock.advance(d)
	l.server.SetTime(l.clock.now())
}

func (l *clockedLine) request(id string, p Policy) Request {
	return Request{User: "u", ID: id, Horizon: time.Hour, Scopes: []Scope{{General, p}}}
}

// in returns a request of a category, without limits of its own if p is nil.
func (l *clockedLine) in(category, id string, general Policy, p *Policy) Request {
	r := l.request(id, general)
	r.Category = category
	if p != nil {
		r.Scopes = append(r.Scopes, Scope{category, *p})
	}
	return r
}

func (l *clockedLine) ask(r Request, claim deniedClaim) Decision {
	l.t.Helper()
	d, err := l.limiter.wait(l.t.Context(), &r, l.limiter.user(&r), claim)
	must(l.t, err)
	return d
}

// start is the initial time of a fakeClock.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// A fakeClock is advanced by the test only.
type fakeClock struct{ micros atomic.Int64 }

func newFakeClock() *fakeClock {
	c := new(fakeClock)
	c.micros.Store(start.UnixMicro())
	return c
}

func (c *fakeClock) now() time.Time { return time.UnixMicro(c.micros.Load()) }

func (c *fakeClock) process() process { return process{c.now(), c.now} }

func (c *fakeClock) advance(d time.Duration) { c.micros.Add(d.Microseconds()) }

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errOf returns the error of a call with two results.
func errOf[T any](_ T, err error) error { return err }
