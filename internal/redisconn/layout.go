package redisconn

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/config"
)

// Divide has the Redis be divided into as many shards as the configuration says, unless it is
// already. It returns an error where it is divided otherwise, and where Redis does not say.
func (c *Conn) Divide(ctx context.Context, cfg config.Redis) error {
	shards, err := shard.NewLayout(c.Client, cfg.Prefix, cfg.Shards).Shards(ctx)
	if err != nil {
		return fmt.Errorf("redis %s: %w", cfg.Address, Explain(err, cfg))
	}
	if cfg.Shards != 0 && cfg.Shards != len(shards) {
		return fmt.Errorf("redis.shards is %d, and redis %s is divided into %d: leave redis.shards out, or take an empty Redis or another redis.prefix", cfg.Shards, cfg.Address, len(shards))
	}
	return nil
}

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
