package compare

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
)

// What a limit takes of a Redis is nearly what it is said to.
func TestBytes(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr(), ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	minute := func(count int) []throttle.Rate { return []throttle.Rate{{Count: count, Period: time.Minute}} }
	for i, c := range []struct {
		spec     spec
		admitted int
	}{
		{spec{Algorithm: meter.TokenBucket, Rates: minute(600)}, 50},
		{spec{Algorithm: meter.TokenBucket, Rates: minute(600), Promise: true}, 50},
		{spec{Algorithm: meter.FixedWindow, Rates: minute(600)}, 50},
		{spec{Algorithm: meter.SlidingWindow, Rates: minute(600)}, 50},
		{spec{Algorithm: Rolling, Rates: minute(10)}, 10},
		{spec{Algorithm: Rolling, Rates: minute(100)}, 100},
		{spec{Algorithm: Rolling, Rates: minute(600)}, 600},
	} {
		prefix := fmt.Sprint("bytes", i)
		limiter, err := throttle.New(client, throttle.Options{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		a := &Arrivals{keys: 1, at: make([]int64, c.admitted), key: make([]int32, c.admitted)}
		for n := range c.admitted {
			var err error
			if c.spec.metered() {
				_, err = meter.NewRedis(client, prefix).Take(t.Context(), "app/user-4711", c.spec.meter(), meter.Ask{Least: 1, Most: 1})
			} else {
				_, err = limiter.Acquire(t.Context(), throttle.Request{App: "app", User: "user-4711", ID: fmt.Sprintf("order-%d-shipped", 100_000+n),
					Scopes: []throttle.Scope{{Name: throttle.General, Policy: throttle.Policy{Rates: c.spec.Rates}}}})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := limiter.Close(); err != nil {
			t.Error(err)
		}
		used := int64(0)
		for keys := client.Scan(t.Context(), 0, prefix+":*", 100).Iterator(); keys.Next(t.Context()); {
			n, err := client.MemoryUsage(t.Context(), keys.Val(), 0).Result()
			if err != nil {
				t.Fatal(err)
			}
			used += n
		}
		contestant := Contestant{"c", c.spec}
		told, _ := contestant.cost(a, make([]admission, c.admitted))
		if ratio := float64(told) / float64(used); ratio < 0.6 || ratio > 1.6 {
			t.Errorf("%s, %d admitted: %d bytes, and Redis has %d", contestant.Limit(), c.admitted, told, used)
		}
	}
}
