package worker

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/push"
)

// cutOffScript is asynq's requeueCmd, which returns a job to the head of its
// queue, and counts a failure.
//
// KEYS  active, lease, pending, task
// ARGV  ID, what is put behind the message
var cutOffScript = redis.NewScript(`
if redis.call('LREM', KEYS[1], 0, ARGV[1]) == 0 then return redis.error_reply('NOT FOUND') end
if redis.call('ZREM', KEYS[2], ARGV[1]) == 0 then return redis.error_reply('NOT FOUND') end
redis.call('RPUSH', KEYS[3], ARGV[1])
redis.call('HSET', KEYS[4], 'state', 'pending', 'msg', redis.call('HGET', KEYS[4], 'msg') .. ARGV[2])
return redis.status_reply('OK')
`)

// cutOff returns a job to its queue that a shutdown cuts off. It may be on its way
// to a provider, or sent and not recorded, which asynq does not count: so that the
// next visit looks at the record, and takes nothing for not sent, this does.
func (p *puller) cutOff(ctx context.Context, keys []string, args []any) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	message, err := p.HGet(ctx, keys[3], "msg").Result()
	if err != nil {
		cmd.SetErr(err)
		return cmd
	}
	envelope, _ := push.ReadEnvelope(message)
	return cutOffScript.Run(ctx, p.UniversalClient, keys, args[0], envelope.FailedOnceMore())
}
