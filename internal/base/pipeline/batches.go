package pipeline

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// A Batch is a command that several callers share. Not safe for concurrent use.
type Batch interface {
	// Len is the number of callers.
	Len() int
	// Command returns the command of all callers.
	Command(ctx context.Context) *redis.Cmd
	// Read reads the answer. It returns an error for each caller, or one error for all callers.
	Read(ctx context.Context, cmd *redis.Cmd) ([]error, error)
}

// Batches let concurrent callers share a command: the first caller sends it, and callers that come
// before it is sent join. On a client that Share has not made, each caller sends its own command.
type Batches[B Batch] struct {
	client redis.UniversalClient

	mu   sync.Mutex
	open map[string]*sharedBatch[B] // by kind
}

type sharedBatch[B Batch] struct {
	batch B
	ready chan struct{} // closed after the answer
	errs  []error       // one per caller
	err   error         // of all callers
}

// MaxShared bounds the callers of a command, so that it blocks Redis for about a millisecond.
const MaxShared = 100

// NewBatches returns batches on the client.
func NewBatches[B Batch](client redis.UniversalClient) *Batches[B] {
	return &Batches[B]{client: client, open: make(map[string]*sharedBatch[B])}
}

// Do joins or opens a batch of that kind, and returns after its answer. add adds the caller's part.
// key is one of the part's keys: on a Cluster only callers with the same hash slot share a batch.
func (b *Batches[B]) Do(ctx context.Context, key, kind string, open func() B, add func(B)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, cluster := OfCluster(b.client); cluster {
		kind = tag(key) + "\x00" + kind
	}
	j, place := b.join(kind, open, add)
	if place == 0 {
		b.send(ctx, key, kind, j)
		close(j.ready)
	}
	<-j.ready // the pipeline answers or fails within its time-out
	if j.err != nil {
		return j.err
	}
	return j.errs[place]
}

// join returns the caller's batch and the caller's index in it.
func (b *Batches[B]) join(kind string, open func() B, add func(B)) (*sharedBatch[B], int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j := b.open[kind]
	if j == nil || j.batch.Len() == MaxShared {
		j = &sharedBatch[B]{batch: open(), ready: make(chan struct{})}
		if Shares(b.client) {
			b.open[kind] = j
		}
	}
	add(j.batch)
	return j, j.batch.Len() - 1
}

// send sends the batch's command. Callers can join until the pipeline prepares it.
func (b *Batches[B]) send(ctx context.Context, key, kind string, j *sharedBatch[B]) {
	if !Shares(b.client) {
		cmd := j.batch.Command(ctx)
		_ = b.client.Process(ctx, cmd) // the command keeps the error
		j.errs, j.err = j.batch.Read(ctx, cmd)
		return
	}
	var cmd *redis.Cmd
	shared := new(Group)
	shared.Prepare = func() {
		b.close(kind, j)
		cmd = j.batch.Command(ctx)
		shared.Commands = []redis.Cmder{cmd}
	}
	pipeline, err := For(ctx, b.client, key)
	if err == nil {
		err = pipeline.Do(shared)
	}
	if err != nil {
		j.err = err
		b.close(kind, j) // in case the pipeline has never prepared the batch
		return
	}
	ctx = context.WithoutCancel(ctx)
	if cluster, ok := b.client.(*Cluster); ok {
		_ = cluster.redirect(ctx, cmd)
	}
	j.errs, j.err = j.batch.Read(ctx, cmd)
}

// close closes the batch to further callers.
func (b *Batches[B]) close(kind string, j *sharedBatch[B]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[kind] == j {
		delete(b.open, kind)
	}
}
