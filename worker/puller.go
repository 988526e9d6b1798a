package worker

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/push"
)

// A puller is the lanes' client. asynq asks queue by queue for each job, the
// most urgent ones mostly first, so that while one queue is busy the empty ones
// cost as much as it does. What was found empty is not asked again for a moment.
type puller struct {
	redis.UniversalClient
	mu    sync.Mutex
	empty map[string]time.Time // by the key of what is pending: until when
}

// emptyFor is that moment. It delays an urgent job by at most as much.
const emptyFor = 20 * time.Millisecond

func newPuller(client redis.UniversalClient) *puller {
	return &puller{UniversalClient: client, empty: make(map[string]time.Time, len(push.Queues()))}
}

// EvalSha answers asynq's Dequeue for a queue that was just found empty, and
// passes everything else on.
func (p *puller) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	// pending, paused, active, lease: asynq's rdb.Dequeue
	if len(keys) != 4 || !strings.HasSuffix(keys[0], ":pending") || !strings.HasSuffix(keys[3], ":lease") {
		return p.UniversalClient.EvalSha(ctx, sha, keys, args...)
	}
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
