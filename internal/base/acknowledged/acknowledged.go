// Package acknowledged makes a client's writes wait for replicas, so that a failover loses no write
// that was answered without an error. Start with Writes.
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

// ErrUnacknowledged means that a write was made, or may have been, but too few replicas have it: a
// failover of its master may lose the write. Repeat it as after a lost answer. The text contains
// NOREPLICAS but not at its beginning, where a Cluster client would repeat the write at once.
var ErrUnacknowledged = errors.New("unacknowledged: NOREPLICAS too few replicas have the write")

// Writes makes the client send WAIT for this number of replicas after each command and pipeline
// that may write, on the same connection. Call it before the client is used; with 0 replicas it
// does nothing. A client that is neither a *redis.Client nor a *redis.ClusterClient is an error.
//
// If the replicas do not have a write in time, its command returns ErrUnacknowledged, but the write
// stays on the master. The time is half of the client's read time-out, or of the context's
// remaining time.
//
// A transaction of go-redis gets no WAIT, since its client reads nothing after EXEC. A MULTI within
// a pipeline gets a WAIT.
//
// From Redis 7.2 on, WAIT counts the replicas that have the last write of its own connection. After
// a script that only reads another connection's write, WAIT would prove nothing. So the client sets
// a key before WAIT, for a second: NAME:ack, in the hash slot of the commands' first key.
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
		if !mayWrite(cmd) {
			return next(ctx, cmd)
		}
		pipe := w.client.Pipeline()
		_ = pipe.Process(ctx, cmd) // queues it only
		_, _ = pipe.Exec(ctx)      // the command keeps the error
		return cmd.Err()
	}
}

// ProcessPipelineHook sends WAIT after the commands. A command's own error stays: the client needs
// the error of a moved hash slot for the redirect.
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

// touchTTL is the TTL of the key that is set before WAIT, in ms.
const touchTTL = 1000

// touches returns a command that sets a key in the hash slot of the commands' first key; without a
// key no command. Its result is ignored: the commands report the same errors.
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
		return []redis.Cmder{redis.NewStatusCmd(ctx, "set", key+":ack", "", "px", touchTTL)}
	}
	return nil
}

// firstKey returns the first key of a command; "" for none.
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

// transaction reports whether the commands are a transaction of go-redis.
func transaction(cmds []redis.Cmder) bool {
	multi, ok := cmds[0].(*redis.StatusCmd)
	return ok && multi.Name() == "multi"
}

// patience returns how long WAIT waits for the replicas, at least 1 ms: with 0 it never times out.
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

// missed returns nil if enough replicas answered.
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

// Reads reports whether none of the commands makes a lasting write.
func Reads(cmds []redis.Cmder) bool { return !slices.ContainsFunc(cmds, mayWrite) }

// mayWrite reports whether the command may make a lasting write; true for an unknown command.
func mayWrite(cmd redis.Cmder) bool {
	if cmd.Name() != "evalsha" {
		return !passingCommands[cmd.Name()]
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

// readers holds, by hash, the first arguments with which a script only reads; an empty list means
// all arguments.
var readers = map[string][]string{}

// Reader marks a script that makes no lasting write, with the given first arguments or always: the
// client does not wait for replicas after it. Call Reader during initialization.
func Reader(script *redis.Script, ops ...string) *redis.Script {
	readers[script.Hash()] = ops
	return script
}

// passingCommands are the commands that read, query the server, publish, control a transaction, or block.
// XREADGROUP is among them: entries that it loses in a failover are delivered again.
var passingCommands = func() map[string]bool {
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
