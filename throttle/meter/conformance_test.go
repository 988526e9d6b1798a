//go:build unix

package meter_test

import (
	"context"
	"flag"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/internal/base/racing"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle/meter"
)

func TestMain(m *testing.M) {
	_ = flag.Set("rapid.checks", strconv.Itoa(racing.Fewer(histories)))
	redistest.Parallel() // parses the flags
	goleak.VerifyTestMain(m, redistest.Dialing())
}

func TestMiniredis(t *testing.T) {
	t.Parallel()
	conforms(t, func(t testing.TB, c *suiteClock) instance {
		server := redistest.Miniredis(t)
		c.Follow(server.SetTime)
		server.ClockTTL(true)
		client := redistest.Connect(t, &redis.Options{Addr: server.Addr()})
		return instance{Meter: meter.NewPatient(client, "p"), Held: func() int { return len(server.Keys()) }}
	}, embedded...)
}

// TestMiniredis checks only these properties, as miniredis is ten times slower. TestRedis checks
// all properties on a real Redis.
var embedded = []string{"counts as an exact oracle", "a key that says nothing is forgotten"}

// On real Redis the suite's clock is in a key, and Redis itself reports each key's expiry.
func TestRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	conforms(t, func(t testing.TB, c *suiteClock) instance {
		prefix, ctx := redistest.Prefix(), context.Background()
		client := redistest.Connect(t, server.Options())
		clock := prefix + "-clock"
		c.Follow(func(now time.Time) {
			must(t, client.Set(ctx, clock, now.UnixMicro(), 0).Err())
		})
		return instance{
			Meter: meter.NewRedisAt(client, prefix, clock),
			Held: func() int {
				keys, err := client.Keys(ctx, prefix+":*").Result()
				must(t, err)
				return len(slices.DeleteFunc(keys, func(key string) bool {
					at := client.PExpireTime(ctx, key).Val()
					return at >= 0 && !time.Unix(0, 0).Add(at).After(c.Now())
				}))
			},
		}
	})
}
