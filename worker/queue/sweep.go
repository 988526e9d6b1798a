package queue

import (
	"context"
	"log/slog"
	"time"

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
	return c.SAdd(ctx, asynqwire.QueuesKey, queue).Err()
}
