package redisconn

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
)

// earlier returns an error where an earlier pushpace has left its records, in which nobody
// would look for them.
func earlier(ctx context.Context, c redis.UniversalClient, prefix string) error {
	pipe := c.Pipeline()
	found := map[string]*redis.IntCmd{}
	for i := range 16 {
		key := fmt.Sprintf("%s:{records-%d}:counts", prefix, i)
		found[key] = pipe.Exists(ctx, key)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		if _, cluster := pipeline.OfCluster(c); !cluster { // of which a node may be away
			return err
		}
	}
	for key, exists := range found {
		if exists.Val() > 0 {
			return fmt.Errorf("%s is of an earlier pushpace, whose records and dead letters this one does not read: let that one end what waits, then delete its keys, %s:{records-*}:*, or set another redis.prefix", key, prefix)
		}
	}
	return nil
}
