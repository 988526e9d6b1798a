package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redisconn"
)

// claimLife is how long a demo that crashed keeps its claim on a database.
const claimLife = 5 * time.Minute

// claimDatabase finds an empty database of the Redis and claims it for the demo, because queues
// have fixed names that other workers on this Redis use too. It sets the database in its.
func claimDatabase(ctx context.Context, its *config.Redis) error {
	const least, most = 1, 15
	for its.DB = most; its.DB >= least; its.DB-- {
		conn, err := redisconn.Open(ctx, *its, 2)
		if err != nil && redisreply.NoDatabase(err) {
			continue
		}
		if err != nil {
			return err
		}
		claimed, err := claim(ctx, conn.Client, its.Prefix)
		_ = conn.Close()
		if claimed || err != nil {
			return err
		}
	}
	return fmt.Errorf("redis %s: none of the databases %d to %d is there and empty: the demo keeps away from those in use; name another Redis",
		its.Address, least, most)
}

func claim(ctx context.Context, c redis.UniversalClient, prefix string) (bool, error) {
	if n, err := c.DBSize(ctx).Result(); n > 0 || err != nil {
		return false, err
	}
	ok, err := c.SetNX(ctx, claimKey, prefix, claimLife).Result()
	if !ok || err != nil {
		return false, err
	}
	n, err := c.DBSize(ctx).Result() // somebody may have come at the same time
	if n > 1 || err != nil {
		return false, errors.Join(err, c.Del(ctx, claimKey).Err())
	}
	return true, nil
}

// claimKey says that a demo has the database.
const claimKey = "pushpace-demo"

// demoPrefix is for the keys of one demo.
func demoPrefix() string { return "pushpace-demo-" + strings.ToLower(rand.Text()[:8]) }

// cleanUp removes the demo's keys from its database.
func cleanUp(its config.Redis) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := redisconn.Open(ctx, its, 2)
	if err != nil {
		return fmt.Errorf("the demo's keys are not removed: %w", err)
	}
	defer conn.Close()
	c := conn.Client
	for _, pattern := range []string{its.Prefix + ":*", shard.AsynqKeys, claimKey} {
		var keys []string
		it := c.Scan(ctx, 0, pattern, 1000).Iterator()
		for it.Next(ctx) {
			keys = append(keys, it.Val())
		}
		if err := it.Err(); err != nil {
			return fmt.Errorf("the demo's keys are not removed: %w", err)
		}
		if len(keys) == 0 {
			continue
		}
		if err := c.Unlink(ctx, keys...).Err(); err != nil {
			return fmt.Errorf("the demo's keys are not removed: %w", err)
		}
	}
	return nil
}
