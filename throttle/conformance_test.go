//go:build unix

package throttle_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/internal/throttletest"
	"github.com/redis/go-redis/v9"
)

// A setClock is a clock that only the test advances.
type setClock struct{ micros atomic.Int64 }

func newSetClock() *setClock {
	c := new(setClock)
	c.micros.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMicro())
	return c
}

func (c *setClock) now() time.Time          { return time.UnixMicro(c.micros.Load()) }
func (c *setClock) advance(d time.Duration) { c.micros.Add(d.Microseconds()) }

func TestMiniredis(t *testing.T) {
	t.Parallel()
	throttletest.Run(t, throttletest.Harness{
		Claims: true,
		Slow:   true,
		New: func(t testing.TB) throttletest.Instance {
			server := redistest.Miniredis(t)
			clock := newSetClock()
			server.SetTime(clock.now())
			server.ClockTTL(true)
			return throttletest.Instance{
				Limiter: newRedis(t, server.Addr(), clock.now),
				Peer:    newRedis(t, server.Addr(), clock.now),
				Advance: func(d time.Duration) { clock.advance(d); server.SetTime(clock.now()) },
				Lasting: func() []string { return lastingIn(server) },
			}
		},
	})
}

func lastingIn(server *miniredis.Miniredis) []string {
	return slices.DeleteFunc(server.Keys(), func(key string) bool { return server.TTL(key) > 0 })
}

func TestRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	throttletest.Run(t, throttletest.Harness{
		Cannot: []throttletest.Ability{throttletest.SetClock},
		Claims: true,
		New: func(t testing.TB) throttletest.Instance {
			prefix := redistest.Prefix()
			client := server.Client(t)
			return throttletest.Instance{
				Limiter: newRedisOn(t, server.Options(), throttle.Options{Prefix: prefix}),
				Peer:    newRedisOn(t, server.Options(), throttle.Options{Prefix: prefix}),
				Lasting: func() []string {
					keys, err := client.Keys(context.Background(), prefix+"*").Result()
					must(t, err)
					return slices.DeleteFunc(keys, func(key string) bool {
						ttl, err := client.PTTL(context.Background(), key).Result()
						return err != nil || ttl != -1
					})
				},
			}
		},
	})
}

// newLimiter returns a limiter that the test's end closes.
func newLimiter(t testing.TB, client redis.UniversalClient, o throttle.Options) *throttle.Redis {
	l := throttle.NewRedis(client, o)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func newRedis(t testing.TB, addr string, now func() time.Time) *throttle.Redis {
	return newRedisOn(t, &redis.Options{Addr: addr}, throttle.Options{Now: now})
}

func newRedisOn(t testing.TB, o *redis.Options, limits throttle.Options) *throttle.Redis {
	o.ContextTimeoutEnabled, o.ReadTimeout = true, 20*time.Second // miniredis is slow under the race detector
	o.MaintNotificationsConfig = nil
	client := redis.NewClient(o)
	limits.Horizon, limits.Timeout = throttletest.Horizon, max(limits.Timeout, 20*time.Second)
	t.Cleanup(func() { _ = client.Close() })
	return newLimiter(t, client, limits)
}
