package push

import (
	"context"
	"strings"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
)

// A Producer refuses an asynq that enqueues by another script, or by none: the job
// would have no record.
func TestProducerRefusesAnotherAsynq(t *testing.T) {
	t.Parallel()
	options := redistest.Shared(t).Options()
	options.DB = redistest.Database(t)
	client := redistest.Connect(t, options)
	n := Notification{ID: "one", App: "shop", User: "ada", Targets: []Target{{APNs, "00fcab"}}, Title: "t"}
	for name, tasks := range map[string]func(*Producer) redis.UniversalClient{
		"another script": func(p *Producer) redis.UniversalClient {
			return otherScript{&enqueuer{UniversalClient: client, records: p.records}}
		},
		"no script": func(*Producer) redis.UniversalClient { return client },
	} {
		p := NewProducer(client, "other", 0)
		p.tasks = asynq.NewClientFromRedisClient(tasks(p))
		if _, err := p.Enqueue(t.Context(), &n); err == nil || !strings.Contains(err.Error(), AsynqVersion) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// otherScript is what a client gets whose asynq has changed enqueueCmd.
type otherScript struct{ *enqueuer }

func (o otherScript) EvalSha(ctx context.Context, _ string, keys []string, args ...any) *redis.Cmd {
	return o.enqueuer.EvalSha(ctx, strings.Repeat("0", 40), keys, args...)
}
