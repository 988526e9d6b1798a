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

// A Wake makes a job due at the instant At or earlier.
type Wake struct {
	ID string
	At time.Time
}

// WakeAll makes delayed jobs due earlier, except parked ones, and returns the IDs of jobs that
// workers have claimed.
func (r *Shard) WakeAll(ctx context.Context, queue string, all []Wake) (claimed []string, err error) {
	args := []any{r.QueueKey(queue, "t:"), r.Key("id:")}
	for _, w := range all {
		args = append(args, w.ID, w.At.UnixMicro())
	}
	return wakeScript.Run(ctx, r.client, r.queueKeys(queue, "retry", "pending", "due", "idle"), args...).StringSlice()
}
