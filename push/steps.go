package push

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
)

// enqueueAlone is asynq's enqueueCmd, which wakes an idle worker.
//
// KEYS  asynq's task and pending list; the queue's idle workers
// ARGV  asynq's message, ID and instant (ns)
var enqueueAlone = redis.NewScript(asynqwire.WakeIdle + `
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'msg', ARGV[1], 'state', 'pending', 'pending_since', ARGV[3])
redis.call('LPUSH', KEYS[2], ARGV[2])
wake(KEYS[3])
return 1
`)

// An enqueuer is the client of a Producer's asynq client, for what it enqueues by more
// steps than one: it runs enqueueAlone for what is due.
type enqueuer struct{ redis.UniversalClient }

// EvalSha implements redis.Scripter.
func (e *enqueuer) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	if sha == asynqwire.EnqueueHash {
		return enqueueAlone.Run(ctx, e.UniversalClient, append(keys, strings.TrimSuffix(keys[1], "pending")+"idle"), args...)
	}
	return e.UniversalClient.EvalSha(ctx, sha, keys, args...)
}
