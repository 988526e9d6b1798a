package store

import (
	"context"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/shard"
)

//go:embed forward.lua
var forwardSource string

var forwardScript = redis.NewScript(WakeIdle + forwardSource)

// Forward moves delayed jobs of the shard that are due to their queues, some hundred at most,
// and returns how many.
func (r *Shard) Forward(ctx context.Context) (int, error) {
	var keys []string
	args := []any{int(parkedFor / time.Second)}
	for queue := range shard.Queues() {
		keys = append(keys, r.queueKeys(queue, "scheduled", "retry", "pending", "due", "idle", "parked:")...)
		args = append(args, r.QueueKey(queue, "t:"))
	}
	return forwardScript.Run(ctx, r.client, keys, args...).Int()
}
