package throttle

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// A clockedLine is a user's slots on a server of their own, whose clock is set.
type clockedLine struct {
	t       *testing.T
	server  *miniredis.Miniredis
	clock   *fakeClock
	limiter *Redis
}

func newClockedLine(t *testing.T) *clockedLine {
	l := &clockedLine{t: t, server: miniredis.RunT(t), clock: newFakeClock()}
	client := redis.NewClient(&redis.Options{Addr: l.server.Addr(), ContextTimeoutEnabled: true})
	l.limiter = NewRedis(client, Options{Timeout: time.Minute, Now: l.clock.now})
	t.Cleanup(func() {
		_ = l.limiter.Close()
		_ = client.Close()
	})
	l.server.SetTime(l.clock.now())
	return l
}

func (l *clockedLine) advance(d time.Duration) {
	l.clock.advance(d)
	l.server.SetTime(l.clock.now())
}

func (l *clockedLine) request(id string, p Policy) Request {
	return Request{User: "u", ID: id, Horizon: time.Hour, Scopes: []Scope{{General, p}}}
}

// acquire goes past the claim, which would read another's clock.
func (l *clockedLine) acquire(id string, p Policy) Decision {
	l.t.Helper()
	return l.ask(l.request(id, p), denial{})
}

// slots are how far ahead those wait, by ID.
func (l *clockedLine) slots() map[string]time.Duration {
	l.t.Helper()
	timeline, err := l.limiter.Timeline(l.t.Context(), l.request("", Policy{}))
	if err != nil {
		l.t.Fatal(err)
	}
	ahead := map[string]time.Duration{}
	for _, b := range timeline.Bookings {
		ahead[b.ID] = b.Slot.Sub(l.clock.now())
	}
	return ahead
}
