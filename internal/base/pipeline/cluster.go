package pipeline

import (
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/redisreply"
)

// A Cluster is a client of a Redis Cluster with a Pipeline for each master. Scripts, and groups sent
// with For, use the pipeline of the master that has their keys. All other commands use the
// ClusterClient that was given to Share.
//
// The ClusterClient also redirects a script that a master refuses because it does not have the
// keys. A script is not repeated after a lost connection, as Redis may have run it.
type Cluster struct {
	*redis.ClusterClient
	options Options

	mu          sync.RWMutex
	masters     map[*redis.Client]*master
	closed      bool
	lastCleanup atomic.Int64 // when unused masters were last removed, in ns
	ending      sync.WaitGroup
}

type master struct {
	*Pipeline
	used atomic.Int64 // last use, in ns
}

// idleLimit is how long the pipeline of an unused master is kept: the master may have left the
// Cluster.
const idleLimit = time.Minute

func share(client *redis.ClusterClient, o Options) *Cluster {
	return &Cluster{ClusterClient: client, options: o, masters: make(map[*redis.Client]*master)}
}

// Process sends a script as EvalSha does, and any other command by the ClusterClient.
func (c *Cluster) Process(ctx context.Context, cmd redis.Cmder) error {
	key, ok := scriptKey(cmd)
	if !ok {
		return c.ClusterClient.Process(ctx, cmd)
	}
	if err := ctx.Err(); err != nil {
		cmd.SetErr(err)
		return err
	}
	p, err := c.master(ctx, key)
	if err == nil {
		err = p.Do(&Group{Commands: []redis.Cmder{cmd}})
	}
	if err != nil {
		cmd.SetErr(err)
		return err
	}
	return c.redirect(ctx, cmd)
}

// EvalSha runs a script on the master that has its keys, and shares the round trip.
func (c *Cluster) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	cmd := c.Pipeline().EvalSha(ctx, sha, keys, args...) // the pipeline only builds the command
	_ = c.Process(ctx, cmd)                              // the command keeps the error
	return cmd
}

// Eval is EvalSha with the script itself.
func (c *Cluster) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	cmd := c.Pipeline().Eval(ctx, script, keys, args...)
	_ = c.Process(ctx, cmd)
	return cmd
}

// scriptKey returns a script's first key; false for other commands and scripts without keys.
func scriptKey(cmd redis.Cmder) (string, bool) {
	args := cmd.Args()
	if name := cmd.Name(); name != "evalsha" && name != "eval" || len(args) < 4 || args[2] == 0 {
		return "", false
	}
	key, ok := args[3].(string)
	return key, ok
}

// redirect repeats a command on the ClusterClient after a master has refused it because it does not
// have the keys. While the hash slot migrates and the script's keys are on two masters, redirect
// repeats for the pipelines' time-out. It returns the command's last error.
func (c *Cluster) redirect(ctx context.Context, cmd redis.Cmder) error {
	const shortest, longest = 10 * time.Millisecond, 100 * time.Millisecond
	const within = 100 * time.Millisecond // the client's own wait
	err, until := cmd.Err(), time.Now().Add(c.options.bound())
	if ends, ok := ctx.Deadline(); ok && ends.Before(until) {
		until = ends
	}
	for pause := shortest; wasNotRun(err); pause = min(2*pause, longest) {
		cmd.SetErr(nil)
		err = c.ClusterClient.Process(ctx, cmd)
		if !redisreply.IsMoving(err) || time.Until(until) < pause+within {
			break
		}
		next := time.NewTimer(pause)
		select {
		case <-next.C:
		case <-ctx.Done():
			next.Stop()
			return err
		}
	}
	return err
}

// wasNotRun reports whether the error is a master's reply that it did not run the command.
func wasNotRun(err error) bool {
	if err == nil {
		return false
	}
	return redisreply.IsMoving(err) || redis.IsClusterDownError(err) || redis.IsReadOnlyError(err)
}

// master returns the pipeline of the master that has the key.
func (c *Cluster) master(ctx context.Context, key string) (*Pipeline, error) {
	client, err := c.MasterForKey(ctx, key)
	if err != nil {
		return nil, err
	}
	now := time.Now().UnixNano()
	c.mu.RLock()
	m, closed := c.masters[client], c.closed
	if m != nil {
		m.used.Store(now) // before removal can see the old time
	}
	c.mu.RUnlock()
	switch {
	case closed:
		return nil, ErrClosed
	case m == nil:
		if m = c.pipelineOf(client); m == nil {
			return nil, ErrClosed
		}
		m.used.Store(now)
	}
	if looked := c.lastCleanup.Load(); now-looked > int64(idleLimit) && c.lastCleanup.CompareAndSwap(looked, now) {
		c.closeIdle(now - int64(idleLimit))
	}
	return m.Pipeline, nil
}

// pipelineOf returns the master's pipeline, and makes it if needed; nil after close.
func (c *Cluster) pipelineOf(client *redis.Client) *master {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	m := c.masters[client]
	if m == nil {
		m = &master{Pipeline: New(client, c.options)}
		m.gate = new(gate)
		c.masters[client] = m
	}
	return m
}

// closeIdle closes the pipelines that have not been used since the instant.
func (c *Cluster) closeIdle(since int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	maps.DeleteFunc(c.masters, func(_ *redis.Client, m *master) bool {
		if m.used.Load() >= since {
			return false
		}
		c.ending.Go(m.Close) // commands in flight may take until the time-out
		return true
	})
}

// close ends the pipelines.
func (c *Cluster) close() {
	c.mu.Lock()
	masters := c.masters
	c.masters, c.closed = nil, true
	c.mu.Unlock()
	for _, m := range masters {
		m.Close()
	}
	c.ending.Wait()
}

// OfCluster returns the ClusterClient, for commands to each node; false for a single server.
func OfCluster(client redis.UniversalClient) (*redis.ClusterClient, bool) {
	switch c := client.(type) {
	case *Cluster:
		return c.ClusterClient, true
	case *redis.ClusterClient:
		return c, true
	}
	return nil, false
}

// tag returns the part of a key that determines its hash slot.
func tag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}
