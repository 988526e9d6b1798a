package store

import (
	"context"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed wakejob.lua
var wakeJobSource string

//go:embed wake.lua
var wakeSource string

var wakeScript = redis.NewScript(WakeIdle + wakeJobSource + wakeSource)

// A Wake is a job that is to be due at that instant, or at once.
type Wake struct {
	ID string
	At time.Time // zero for at once
}

// WakeAll makes delayed jobs due earlier, and returns the IDs of those that a worker has in hand.
func (r *Shard) WakeAll(ctx context.Context, queue string, all []Wake) (inHand []string, err error) {
	args := []any{r.QueueKey(queue, "t:"), r.Key("id:")}
	for _, w := range all {
		at := int64(0)
		if !w.At.IsZero() {
			at = w.At.UnixMicro()
		}
		args = append(args, w.ID, at)
	}
	return wakeScript.Run(ctx, r.client, r.queueKeys(queue, "retry", "pending", "due", "idle"), args...).StringSlice()
}
