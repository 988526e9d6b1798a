// Package acknowledged has a client's writes answered once replicas have them, so that the
// failover of a master loses nothing that was answered.
package acknowledged

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/redisreply"
)

// ErrUnacknowledged means that a write was made, or may have been, and that fewer replicas
// than asked for have it: the failover of its master may lose it. It is to be made again, as
// one whose answer was lost. Its text holds what Redis says that refuses a write for want of
// replicas, and does not begin with it: a client of a Cluster would make by itself again, at
// once, what was made.
var ErrUnacknowledged = errors.New("unacknowledged: NOREPLICAS too few replicas have the write")

// Writes has each command of the client but those that only read, and each pipeline that
// holds another one, followed by WAIT for so many replicas on the same connection. It is for a
// client that is not used yet; 0 replicas leave it as it is. A client that is neither a
// *redis.Client nor a *redis.ClusterClient is an error.
//
// A write that they do not have within half of the client's read time-out, or of what is
// left to the context, has ErrUnacknowledged. What it did stays done on the master.
//
// A transaction of go-redis is not followed, since its client reads nothing behind EXEC:
// a MULTI within a pipeline is.
//
// From Redis 7.2 on WAIT counts the replicas that have what its own connection wrote last; a
// script that only finds what another connection wrote would tell nothing of whether they have
// that. So a key is set before it, for a second: NAME:ack, beside the first key of the commands.
func Writes(client redis.UniversalClient, replicas int) error {
	if replicas <= 0 {
		return nil
	}
	switch c := client.(type) {
	case *redis.Client:
		c.AddHook(writes{c, replicas})
	case *redis.ClusterClient:
		c.OnNewNode(func(node *redis.Client) { node.AddHook(writes{node, replicas}) })
	default:
		return fmt.Errorf("acknowledged writes: want a *redis.Client or a *redis.ClusterClient, not a %T", client)
	}
	return nil
}

// writes is the hook of one server's client.
type writes struct {
	client   *redis.Client
	replicas int
}

// DialHook implements redis.Hook.
func (writes) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook sends a write as a pipeline of one.
func (w writes) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !writing(cmd) {
			return next(ctx, cmd)
		}
		pipe := w.client.Pipeline()
		_ = pipe.Process(ctx, cmd) // only queued
		_, _ = pipe.Exec(ctx)      // the error is the command's
		return cmd.Err()
	}
}

// ProcessPipelineHook sends WAIT behind the commands. Those that have an error of their own
// keep it: a slot that has moved is looked for elsewhere.
func (w writes) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if transaction(cmds) || Reads(cmds) {
			return next(ctx, cmds)
		}
		wait := redis.NewIntCmd(ctx, "wait", w.replicas, w.patience(ctx).Milliseconds())
		err := next(ctx, append(append(slices.Clone(cmds), touches(ctx, cmds)...), wait))
		if err != nil && !redisreply.Answered(err) {
			return err
		}
		missed := w.missed(wait)
		first := missed
		for _, cmd := range cmds {
			switch own := cmd.Err(); {
			case missed != nil && (own == nil || errors.Is(own, redis.Nil)):
				cmd.SetErr(missed)
			case first == nil:
				first = own
			}
		}
		return first
	}
}

// touchFor is for how many milliseconds a key lasts that is set for WAIT's sake.
const touchFor = 1000

// touches is the command that sets a key beside the first one of the commands, in its slot; none
// where they have no key. What becomes of it is not looked at: the commands tell of the same.
func touches(ctx context.Context, cmds []redis.Cmder) []redis.Cmder {
	for _, cmd := range cmds {
		key := firstKey(cmd)
		if key == "" {
			continue
		}
		if name, rest, ok := strings.Cut(key, "{"); ok {
			if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
				key = name + "{" + tag + "}"
			}
		}
		return []redis.Cmder{redis.NewStatusCmd(ctx, "set", key+":ack", "", "px", touchFor)}
	}
	return nil
}

// firstKey is the first key of a command; "" for none.
func firstKey(cmd redis.Cmder) string {
	args, at := cmd.Args(), 1
	switch cmd.Name() {
	case "eval", "evalsha":
		if at = 3; len(args) > 2 && fmt.Sprint(args[2]) == "0" {
			return ""
		}
	case "multi", "exec", "time", "asking", "script":
		return ""
	}
	if len(args) <= at {
		return ""
	}
	switch key := args[at].(type) {
	case string:
		return key
	case *string:
		return *key
	}
	return ""
}

// transaction reports whether go-redis has made a transaction of the commands.
func transaction(cmds []redis.Cmder) bool {
	multi, ok := cmds[0].(*redis.StatusCmd)
	return ok && multi.Name() == "multi"
}

// patience is for how long a master waits for its replicas, of 1 ms at least: WAIT takes 0 for
// without end.
func (w writes) patience(ctx context.Context) time.Duration {
	limit := w.client.Options().ReadTimeout
	if deadline, ok := ctx.Deadline(); ok && (limit <= 0 || time.Until(deadline) < limit) {
		limit = time.Until(deadline)
	}
	if limit <= 0 {
		limit = time.Second
	}
	return max(limit/2, time.Millisecond)
}

// missed is nil where enough replicas answered.
func (w writes) missed(wait *redis.IntCmd) error {
	n, err := wait.Result()
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnacknowledged, err)
	case n < int64(w.replicas):
		return fmt.Errorf("%w: %d of %d", ErrUnacknowledged, n, w.replicas)
	}
	return nil
}

// Reads reports whether none of the commands writes what is to last.
func Reads(cmds []redis.Cmder) bool { return !slices.ContainsFunc(cmds, writing) }

// writing reports whether the command may write what is to last. One that is not known may.
func writing(cmd redis.Cmder) bool {
	if cmd.Name() != "evalsha" {
		return !passing[cmd.Name()]
	}
	args := cmd.Args()
	if len(args) < 3 {
		return true
	}
	sha, _ := args[1].(string)
	ops, reads := readers[sha]
	if !reads || len(ops) == 0 {
		return !reads
	}
	keys, _ := args[2].(int)
	if len(args) <= 3+keys {
		return true
	}
	op, _ := args[3+keys].(string)
	return !slices.Contains(ops, op)
}

// readers are the scripts that only read, by their hashes, with the first arguments by which
// they do; none for any.
var readers = map[string][]string{}

// Reader has replicas not be waited for after a script that only reads, or does so by those
// first arguments, or writes what need not last. It is called while the program begins.
func Reader(script *redis.Script, ops ...string) *redis.Script {
	readers[script.Hash()] = ops
	return script
}

// passing are the commands that only read, ask about the server, publish, are about a
// transaction of their connection, or block: what XREADGROUP hands out is handed out again
// after a failover that has lost it.
var passing = func() map[string]bool {
	names := map[string]bool{}
	for name := range strings.FieldsSeq(`
		get mget getrange strlen exists ttl pttl type scan randomkey
		hget hmget hgetall hstrlen hexists hlen hkeys hvals hscan
		llen lrange lindex lpos
		scard smembers sismember smismember srandmember sscan
		zcard zcount zscore zmscore zrank zrevrank zrange zrangebyscore zrangebylex zrevrange zrevrangebyscore zscan
		xlen xrange xrevrange xread xinfo xpending xreadgroup
		publish spublish pubsub
		time ping echo info config cluster command client memory object dbsize role readonly
		auth hello select asking wait waitaof
		watch unwatch multi exec discard
		blpop brpop blmove brpoplpush blmpop bzpopmin bzpopmax bzmpop`) {
		names[name] = true
	}
	return names
}()
