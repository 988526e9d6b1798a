package redisconn

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

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
