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
// asynq asks queue by queue for each job, the most urgent ones mostly first, so
// that while one queue is busy the empty ones cost as much as it does. What was
// found empty is not asked again for a moment.
//
// A notification that is delivered at its first attempt, as most are, is settled
// in the step in which asynq is done with its job.
type puller struct {
	redis.UniversalClient
	records *push.Records
	oneStep bool

	mu        sync.Mutex
	empty     map[string]time.Time // by the key of what is pending: until when
	delivered map[string]struct{}  // by ID: handled, and not settled yet
}

// emptyFor is that moment. It delays an urgent job by at most as much.
const emptyFor = 20 * time.Millisecond

func newPuller(client redis.UniversalClient, records *push.Records) *puller {
	return &puller{
		UniversalClient: client, records: records, oneStep: push.OneRedis(client),
		empty: make(map[string]time.Time, len(push.Queues())), delivered: make(map[string]struct{}),
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
		return p.dequeue(ctx, sha, keys, args)
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

// dequeue answers for a queue that was just found empty.
func (p *puller) dequeue(ctx context.Context, sha string, keys []string, args []any) *redis.Cmd {
	p.mu.Lock()
	empty := time.Now().Before(p.empty[keys[0]])
	p.mu.Unlock()
	if empty {
		cmd := redis.NewCmd(ctx)
		cmd.SetErr(redis.Nil)
		return cmd
	}
	cmd := p.UniversalClient.EvalSha(ctx, sha, keys, args...)
	if cmd.Err() == redis.Nil {
		p.mu.Lock()
		p.empty[keys[0]] = time.Now().Add(emptyFor)
		p.mu.Unlock()
	}
	return cmd
}
