package queue

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
	"github.com/pushpace/pushpace/worker/clock"
)

const sweepEvery = 20 * time.Second

// Sweep puts right what of asynq's own keys would keep jobs from being seen, until
// ctx ends.
func (s *Server) Sweep(ctx context.Context) {
	clock.Every(ctx, sweepEvery, func() {
		for queue := range asynqwire.Queues() {
			if err := s.client.sweep(ctx, queue); err != nil && ctx.Err() == nil {
				s.config.RedisLog.LogAttrs(ctx, slog.LevelWarn, "asynq's queue not looked over", slog.String("queue", queue), slog.Any("error", err))
			}
		}
	})
}

func (c *client) sweep(ctx context.Context, queue string) error {
	// asynq notes a queue's name once, and after a failover that lost it never again
	if err := c.SAdd(ctx, asynqwire.QueuesKey, queue).Err(); err != nil {
		return err
	}
	keys := []string{asynqwire.QueueKey(queue, "groups"), asynqwire.QueueKey(queue, "pending"), asynqwire.IdleKey(queue)}
	return ungroupScript.Run(ctx, c.UniversalClient, keys, asynqwire.QueueKey(queue, "g:"), asynqwire.QueueKey(queue, "t:"), time.Now().UnixNano()).Err()
}

// ungroupScript has tasks be due that were put into groups.
//
// KEYS  the groups, pending, the idle
// ARGV  prefix of the groups' keys, prefix of the tasks' keys, now (ns)
var ungroupScript = redis.NewScript(asynqwire.WakeIdle + `
local moved = 0
for _, group in ipairs(redis.call('SRANDMEMBER', KEYS[1], 10)) do
  local ids = redis.pcall('ZPOPMIN', ARGV[1] .. group, 100)
  if #ids == 0 then redis.call('SREM', KEYS[1], group) end
  for i = 1, #ids, 2 do
    redis.call('LPUSH', KEYS[2], ids[i])
    redis.pcall('HSET', ARGV[2] .. ids[i], 'state', 'pending', 'pending_since', ARGV[3])
    redis.pcall('HDEL', ARGV[2] .. ids[i], 'group')
    wake(KEYS[3])
    moved = moved + 1
  end
end
return moved
`)
