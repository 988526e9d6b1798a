//go:build unix

package scratch

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redistest"
)

var queueKey = strings.ReplaceAll(shard.AsynqKeys, "*", "key")

// claimed returns a claimed database of a new Redis, and a client of that database.
func claimed(t *testing.T) (*Database, *redis.Client) {
	server := redistest.Start(t)
	settings, err := Settings("bench", server.Addr(), nil)
	must(t, err)
	cfg, err := config.Parse("config.yaml", nil, settings)
	must(t, err)
	d, err := Claim(t.Context(), "bench", &cfg.Redis)
	must(t, err)
	options := server.Options()
	options.DB = cfg.Redis.DB
	c := redis.NewClient(options)
	t.Cleanup(func() { _ = c.Close() })
	for _, key := range []string{cfg.Redis.Prefix + ":key", queueKey} {
		must(t, c.Set(t.Context(), key, "", 0).Err())
	}
	return d, c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestClaimIsRenewed(t *testing.T) {
	t.Parallel()
	d, c := claimed(t)
	tick := func() {
		ctx, cancel := context.WithCancel(t.Context())
		ticks, ended := make(chan time.Time), make(chan struct{})
		go func() { defer close(ended); d.renew(ctx, ticks) }()
		ticks <- time.Now()
		ticks <- time.Now() // received when the first renewal has ended
		cancel()
		<-ended
	}
	key := claimKey("bench")
	must(t, c.Expire(t.Context(), key, time.Hour).Err())
	tick()
	if left := c.TTL(t.Context(), key).Val(); left <= 0 || left > claimLife {
		t.Errorf("the claim lasts %s", left)
	}
	must(t, c.Set(t.Context(), key, "another's", time.Hour).Err())
	tick()
	if left := c.TTL(t.Context(), key).Val(); left <= claimLife {
		t.Errorf("another's claim is renewed: it lasts %s", left)
	}
	_ = d.Clean()
}

func TestCleanLeavesDatabaseEmpty(t *testing.T) {
	t.Parallel()
	d, c := claimed(t)
	must(t, d.Clean())
	if keys := c.Keys(t.Context(), "*").Val(); len(keys) != 0 {
		t.Errorf("Clean leaves %q", keys)
	}
}

func TestCleanLeavesQueuesOfLostClaim(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(context.Context, *redis.Client) error{
		"expired": func(ctx context.Context, c *redis.Client) error { return c.Del(ctx, claimKey("bench")).Err() },
		"claimed anew": func(ctx context.Context, c *redis.Client) error {
			return c.Set(ctx, claimKey("bench"), "another's", 0).Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, c := claimed(t)
			must(t, lose(t.Context(), c))
			before := c.Get(t.Context(), claimKey("bench")).Val()
			err := d.Clean()
			cli := "redis-cli -u redis://" + c.Options().Addr + "/15"
			if err == nil || !strings.Contains(err.Error(), "was lost") || !strings.Contains(err.Error(), cli+" --scan --pattern '"+shard.AsynqKeys+"' | xargs "+cli+" unlink") {
				t.Errorf("Clean: %v", err)
			}
			if n := c.Exists(t.Context(), queueKey).Val(); n != 1 {
				t.Error("Clean has removed another's queue")
			}
			if after := c.Get(t.Context(), claimKey("bench")).Val(); after != before {
				t.Errorf("the claim is %q, was %q", after, before)
			}
		})
	}
}
