package redisconn

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redistest"
)

func TestTheRecordsOfAnEarlierOneAreFound(t *testing.T) {
	redistest.OverAll(t, func(t *testing.T, client redis.UniversalClient, prefix string) {
		if err := earlier(t.Context(), client, prefix); err != nil {
			t.Errorf("an empty Redis: %v", err)
		}
		key := prefix + ":{records-9}:counts"
		if err := client.HIncrBy(t.Context(), key, "accepted", 1).Err(); err != nil {
			t.Fatal(err)
		}
		if err := earlier(t.Context(), client, prefix); err == nil || !strings.Contains(err.Error(), key) {
			t.Error(err)
		}
	})
}

// Whoever comes first divides a Redis; what another one wants else is refused.
func TestDivide(t *testing.T) {
	t.Parallel()
	cfg := patient(settings(config.Single, redistest.Miniredis(t).Addr()))
	for _, c := range []struct {
		shards int
		says   string
	}{{8, ""}, {0, ""}, {8, ""}, {16, "redis.shards is 16, and redis"}} {
		cfg.Shards = c.shards
		conn, err := Open(t.Context(), cfg, 4)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Divide(t.Context(), cfg); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d: %v", c.shards, err)
		}
		_ = conn.Close()
	}
	cfg.Prefix, cfg.Shards = "undivided", 0 // by one that knew of no shards
	conn, err := Open(t.Context(), cfg, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Client.HIncrBy(t.Context(), "undivided:counts", "accepted", 1)
	if cfg.Shards = 8; conn.Divide(t.Context(), cfg) == nil {
		t.Error("what waits undivided is left where nobody pulls")
	}
}
