package store

import (
	"context"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed wake.lua
var wakeSource string

var wakeScript = redis.NewScript(WakeIdle + wakeSource)

// A Wake is a job that is to be due at that instant, or before.
type Wake struct {
	ID string
	At time.Time
}

// WakeAll makes delayed jobs due earlier, but for parked ones, and returns the IDs of those that a worker has in hand.
func (r *Shard) WakeAll(ctx context.Context, queue string, all []Wake) (inHand []string, err error) {
	args := []any{r.QueueKey(queue, "t:"), r.Key("id:")}
	for _, w := range all {
		args = append(args, w.ID, w.At.UnixMicro())
	}
	return wakeScript.Run(ctx, r.client, r.queueKeys(queue, "retry", "pending", "due", "idle"), args...).StringSlice()
}
