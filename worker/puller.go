package worker

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/push"
)

// A puller is the lanes' client. It saves two kinds of round trips.
//
// asynq asks for each job by itself, queue by queue, the most urgent ones mostly
// first, so that while one queue is busy the empty ones cost as much as it does.
// Several jobs are pulled at once, and what was found empty is not asked again
// for a moment.
//
// A notification that is delivered at its first attempt, as most are, is settled
// in the step in which asynq is done with its job.
type puller struct {
	redis.UniversalClient
	records *push.Records
	oneStep bool

	mu        sync.Mutex
	empty     map[string]time.Time // by the key of what is pending: until when
	ready     map[string][]pulled  // by the same: jobs that were pulled ahead
	delivered map[string]struct{}  // by ID: handled, and not settled yet
}

func newPuller(client redis.UniversalClient, records *push.Records) *puller {
	return &puller{
		UniversalClient: client, records: records, oneStep: push.OneRedis(client),
		empty: make(map[string]time.Time, len(push.Queues())), ready: make(map[string][]pulled), delivered: make(map[string]struct{}),
	}
}

// settle takes over the settle of a notification that is delivered, and whose
// job is done as soon as the handler returns. It answers whether it does.
func (p *puller) settle(id string) bool {
	if !p.oneStep {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delivered[id] = struct{}{}
	return true
}

// EvalSha takes the place of asynq's Dequeue and Done, and passes everything
// else on. They are told by the keys that asynq's rdb gives them.
func (p *puller) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	switch {
	case len(keys) == 4 && strings.HasSuffix(keys[0], ":pending") && strings.HasSuffix(keys[3], ":lease"):
		return p.dequeue(ctx, keys, args)
	case len(keys) == 5 && len(args) == 3 && strings.HasSuffix(keys[0], ":active") && strings.HasSuffix(keys[4], ":processed"):
		return p.done(ctx, sha, keys, args)
	}
	return p.UniversalClient.EvalSha(ctx, sha, keys, args...)
}

// done settles in the same step what waits for it. asynq repeats it after an
// error for as long as the job's lease lasts.
func (p *puller) done(ctx context.Context, sha string, keys []string, args []any) *redis.Cmd {
	id, _ := args[0].(string)
	p.mu.Lock()
	_, ours := p.delivered[id]
	p.mu.Unlock()
	if !ours {
		return p.UniversalClient.EvalSha(ctx, sha, keys, args...)
	}
	cmd := p.records.DoneDelivered(ctx, id, keys, args...)
	var reply redis.Error
	if err := cmd.Err(); err == nil || errors.As(err, &reply) {
		p.mu.Lock()
		delete(p.delivered, id)
		p.mu.Unlock()
	}
	return cmd
}

// dequeue hands out one job of several that are pulled at once, and answers by
// itself for a queue that was just found empty.
func (p *puller) dequeue(ctx context.Context, keys []string, args []any) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	job := p.next(ctx, keys[0], args[0])
	if job == nil && !p.foundEmpty(keys[0]) {
		var err error
		if job, err = p.pull(ctx, keys, args); err != nil {
			cmd.SetErr(err)
			return cmd
		}
		if job == nil {
			p.mu.Lock()
			p.empty[keys[0]] = time.Now().Add(emptyFor)
			p.mu.Unlock()
		}
	}
	if job == nil {
		cmd.SetErr(redis.Nil)
		return cmd
	}
	cmd.SetVal(job.message)
	return cmd
}

func (p *puller) foundEmpty(queue string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.empty[queue])
}

// emptyFor is how long a queue that was found empty is not asked again. It
// delays an urgent job by at most as much.
const emptyFor = 20 * time.Millisecond
