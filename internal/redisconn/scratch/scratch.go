// Package scratch lends a command an empty database of a Redis that other programs may use, and
// leaves the database empty.
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

const (
	// claimLife is how long a crashed command's claim on a database lasts.
	claimLife = 5 * time.Minute
	// renewEvery is the time between two renewals of a claim.
	renewEvery = time.Minute
)

// A Database is a Redis database that was empty and that a command has claimed. Clean gives it back.
type Database struct {
	command string
	its     config.Redis
	conn    *redisconn.Conn
	stop    func() // ends the renewal
}

// Settings returns environment settings of the configuration: the Redis at the address, the other
// Redis settings from environ, and a new prefix for the command.
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

// Claim finds an empty database of the Redis in settings, claims it for the command until Clean, and
// sets settings.DB to it. It needs an empty database, because queues have fixed names, which other
// workers use too.
func Claim(ctx context.Context, command string, settings *config.Redis) (*Database, error) {
	const least, most = 1, 15
	for settings.DB = most; settings.DB >= least; settings.DB-- {
		conn, err := redisconn.Open(ctx, *settings, 2)
		if err != nil && redisreply.NoDatabase(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		claimed, err := claim(ctx, conn.Client, claimKey(command), settings.Prefix)
		if claimed && err == nil {
			return hold(command, *settings, conn), nil
		}
		_ = conn.Close()
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("redis %s: none of the databases %d to %d exists and is empty: the %s uses only an empty database; name another Redis",
		settings.Address, least, most, command)
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

// claimKey returns the key that marks the database as the command's.
func claimKey(command string) string { return "pushpace-" + command }

// hold returns the claimed database, and starts to renew the claim.
func hold(command string, its config.Redis, conn *redisconn.Conn) *Database {
	ctx, cancel := context.WithCancel(context.Background())
	tick, ended := time.NewTicker(renewEvery), make(chan struct{})
	d := &Database{command, its, conn, func() { cancel(); tick.Stop(); <-ended }}
	go func() { defer close(ended); d.renew(ctx, tick.C) }()
	return d
}

// renew renews the claim at each tick until ctx ends. After an error the next tick tries again.
func (d *Database) renew(ctx context.Context, ticks <-chan time.Time) {
	for {
		select {
		case <-ticks:
			if ours, err := d.ours(ctx); ours && err == nil {
				_ = d.conn.Client.PExpire(ctx, claimKey(d.command), claimLife).Err()
			}
		case <-ctx.Done():
			return
		}
	}
}

// ours reports whether the command still has its claim.
func (d *Database) ours(ctx context.Context) (bool, error) {
	holder, err := d.conn.Client.Get(ctx, claimKey(d.command)).Result()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return holder == d.its.Prefix, err
}

// cleanLimit bounds a Clean: a million users have some four million keys.
const cleanLimit = 5 * time.Minute

// Clean removes the command's keys from its database, and gives the claim up. If the claim was lost,
// the queues may belong to another program: they stay, and the error has the shell command that
// removes them.
func (d *Database) Clean() error {
	defer d.conn.Close()
	defer d.stop() // the claim must last while the queues' keys are removed
	ctx, cancel := context.WithTimeout(context.Background(), cleanLimit)
	defer cancel()
	err := remove(ctx, d.conn.Client, d.its.Prefix+":*")
	ours, unknown := d.ours(ctx)
	switch {
	case unknown != nil:
		err = errors.Join(err, unknown)
	case !ours:
		err = errors.Join(err, d.lost())
	default:
		err = errors.Join(err, remove(ctx, d.conn.Client, shard.AsynqKeys))
		err = errors.Join(err, d.conn.Client.Del(ctx, claimKey(d.command)).Err())
	}
	if err != nil {
		return fmt.Errorf("not all keys of the %s are removed: %w", d.command, err)
	}
	return nil
}

// lost is the error of a lost claim.
func (d *Database) lost() error {
	scheme := "redis"
	if d.its.TLS.Enabled {
		scheme = "rediss"
	}
	cli := fmt.Sprintf("redis-cli -u %s://%s/%d", scheme, d.its.Address, d.its.DB)
	return fmt.Errorf("the claim %s on database %d was lost, so that the keys %s may belong to another program, and stay; if no program uses the database, remove them by: %s --scan --pattern '%s' | xargs %s unlink",
		claimKey(d.command), d.its.DB, shard.AsynqKeys, cli, shard.AsynqKeys, cli)
}

// remove removes the keys that match the pattern, page by page.
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
