package queue

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/pipeline"
	"github.com/pushpace/pushpace/push"
)

// A batch is jobs that are done at about the same time. They share a command:
// the first sends it, the others join until it leaves.
type batch struct {
	*push.Dones
	ready    chan struct{} // closed when there is an answer
	err      error
	problems []error // of each job
}

// batchMost bounds how many share a command: it holds Redis up for less than a
// millisecond.
const batchMost = 64

// batches are those that can be joined.
type batches struct {
	client   redis.UniversalClient
	pipeline *pipeline.Pipeline // of the client; nil if it has none, and each goes alone
	records  *push.Records

	mu   sync.Mutex
	open map[string]*batch // by asynq's count of the queue's day
}

func newBatches(client redis.UniversalClient, records *push.Records) *batches {
	return &batches{client: client, pipeline: pipeline.Of(client), records: records, open: make(map[string]*batch)}
}

// done ends a job, given the keys and arguments of asynq's script for it, and
// settles its notification as delivered.
func (g *batches) done(ctx context.Context, id string, outcomes []push.TargetOutcome, young bool, keys []string, args []any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b, i := g.join(id, outcomes, keys, args)
	if i == 0 {
		g.send(ctx, keys[3], b, young)
		close(b.ready)
	}
	<-b.ready // as soon as the pipeline has an answer, or gives up
	if b.err != nil {
		return b.err
	}
	return b.problems[i]
}

// join returns the job's batch, and its place there.
func (g *batches) join(id string, outcomes []push.TargetOutcome, keys []string, args []any) (*batch, int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.open[keys[3]]
	if b == nil || b.Len() == batchMost {
		b = &batch{Dones: g.records.NewDones(keys, args), ready: make(chan struct{})}
		if g.pipeline != nil {
			g.open[keys[3]] = b
		}
	}
	b.Add(id, keys[2], outcomes)
	return b, b.Len() - 1
}

// send sends the batch's command. It is joined for as long as possible.
func (g *batches) send(ctx context.Context, day string, b *batch, young bool) {
	if g.pipeline == nil {
		cmd := b.Command(ctx, young)
		_ = g.client.Process(ctx, cmd) // the error is the command's
		b.problems, b.err = b.Read(ctx, cmd)
		return
	}
	var cmd *redis.Cmd
	shared := new(pipeline.Group)
	shared.Prepare = func(int) {
		g.close(day, b)
		cmd = b.Command(ctx, young)
		shared.Commands = []redis.Cmder{cmd}
	}
	if b.err = g.pipeline.Do(shared); b.err != nil {
		g.close(day, b) // it may never have been prepared
		return
	}
	b.problems, b.err = b.Read(context.WithoutCancel(ctx), cmd)
}

// close lets nobody join any more.
func (g *batches) close(day string, b *batch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[day] == b {
		delete(g.open, day)
	}
}
