// Package scratch lends a command an empty database of a Redis that others may use, and
// leaves it empty.
package scratch

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

// claimLife is how long a crashed command's claim on a database lasts.
const claimLife = 5 * time.Minute

// Settings are environment settings of the configuration: the Redis at the address, the other
// settings of a Redis in environ, and a prefix of the command's own.
func Settings(command, address string, environ []string) ([]string, error) {
	a, err := config.ParseAddress(address)
	if err == nil && a.Mode != config.Single {
		err = errors.New("want one host:port")
	}
	if err != nil {
		return nil, fmt.Errorf("--redis: %w", err)
	}
	var settings []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		switch {
		case name == "PUSHPACE_REDIS__DB", name == "PUSHPACE_REDIS__PREFIX", strings.HasPrefix(name, "PUSHPACE_REDIS__ADDRESS"):
		case strings.HasPrefix(name, "PUSHPACE_REDIS__"):
			settings = append(settings, entry)
		}
	}
	prefix := claimKey(command) + "-" + strings.ToLower(rand.Text()[:8])
	return append(settings, "PUSHPACE_REDIS__ADDRESS="+address, "PUSHPACE_REDIS__PREFIX="+prefix), nil
}

// Claim finds an empty database of the Redis and claims it for the command, because queues have
// fixed names that other workers on this Redis use too. It sets the database in its.
func Claim(ctx context.Context, command string, its *config.Redis) error {
	const least, most = 1, 15
	for its.DB = most; its.DB >= least; its.DB-- {
		conn, err := redisconn.Open(ctx, *its, 2)
		if err != nil && redisreply.NoDatabase(err) {
			continue
		}
		if err != nil {
			return err
		}
		claimed, err := claim(ctx, conn.Client, claimKey(command), its.Prefix)
		_ = conn.Close()
		if claimed || err != nil {
			return err
		}
	}
	return fmt.Errorf("redis %s: none of the databases %d to %d is there and empty: the %s keeps away from those in use; name another Redis",
		its.Address, least, most, command)
}

func claim(ctx context.Context, c redis.UniversalClient, key, prefix string) (bool, error) {
	if n, err := c.DBSize(ctx).Result(); n > 0 || err != nil {
		return false, err
	}
	ok, err := c.SetNX(ctx, key, prefix, claimLife).Result()
	if !ok || err != nil {
		return false, err
	}
	n, err := c.DBSize(ctx).Result() // a worker may have started meanwhile
	if n > 1 || err != nil {
		return false, errors.Join(err, c.Del(ctx, key).Err())
	}
	return true, nil
}

// claimKey says that the command has the database.
func claimKey(command string) string { return "pushpace-" + command }

// cleanLimit bounds a Clean: a million users have some four million keys.
const cleanLimit = 5 * time.Minute

// Clean removes the command's keys from its database.
func Clean(command string, its config.Redis) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanLimit)
	defer cancel()
	conn, err := redisconn.Open(ctx, its, 2)
	if err == nil {
		defer conn.Close()
		for _, pattern := range []string{its.Prefix + ":*", shard.AsynqKeys, claimKey(command)} {
			err = errors.Join(err, remove(ctx, conn.Client, pattern))
		}
	}
	if err != nil {
		return fmt.Errorf("the %s's keys are not removed: %w", command, err)
	}
	return nil
}

// remove removes the keys that match, a scan's answer at a time.
func remove(ctx context.Context, c redis.UniversalClient, pattern string) error {
	for cursor := uint64(0); ; {
		keys, next, err := c.Scan(ctx, cursor, pattern, 1000).Result()
		if err == nil && len(keys) > 0 {
			err = c.Unlink(ctx, keys...).Err()
		}
		if cursor = next; err != nil || cursor == 0 {
			return err
		}
	}
}
