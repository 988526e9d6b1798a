package queue

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/pipeline"
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

type batches struct {
	*pipeline.Batches[batch]
	records *push.Records
}

func newBatches(client redis.UniversalClient, records *push.Records) *batches {
	return &batches{pipeline.NewBatches[batch](client, batchMost), records}
}

// done ends a job, given the keys and arguments of asynq's script for it, and
// settles its notification as delivered.
func (b *batches) done(ctx context.Context, id string, outcomes []push.TargetOutcome, young bool, keys []string, args []any) error {
	return b.Do(ctx, keys[3], // asynq's count of the queue's day
		func() batch { return batch{b.records.NewDones(keys, args), young} },
		func(open batch) { open.Add(id, keys[2], outcomes) })
}
