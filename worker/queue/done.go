package queue

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/push"
)

// A batch is jobs that are done at about the same time, and share a command.
type batch struct {
	*push.Dones
	young bool // see push.Dones.Command
}

// batchMost bounds how many share a command: it holds Redis up for less than a
// millisecond.
const batchMost = 64

// Command implements pipeline.Batch.
func (b batch) Command(ctx context.Context) *redis.Cmd { return b.Dones.Command(ctx, b.young) }
