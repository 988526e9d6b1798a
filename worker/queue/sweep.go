package queue

import (
	"context"
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
	"github.com/pushpace/pushpace/worker/clock"
)

const sweepEvery = 20 * time.Second

// Sweep tells asynq's own tools of the queues, until ctx ends: they look for them in a set
// that a failover may lose.
func (s *Server) Sweep(ctx context.Context) {
	clock.Every(ctx, sweepEvery, func() {
		for queue := range s.client.shard.Queues() {
			if err := s.client.SAdd(ctx, asynqwire.QueuesKey, queue).Err(); err != nil && ctx.Err() == nil {
				s.config.RedisLog.LogAttrs(ctx, slog.LevelWarn, "asynq's tools are not told of a queue", slog.String("queue", queue), slog.Any("error", err))
			}
		}
	})
}
