package store

import (
	"context"
	_ "embed"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

//go:embed giveback.lua
var giveBackSource string

var giveBackScript = redis.NewScript(WakeIdle + claimSource + giveBackSource)

// claimBatch is the most jobs that one script reads or gives back.
const claimBatch = 100

// GiveBack returns jobs to the head of their queue, so that the first of them is the next to be
// pulled. n is the number of returned jobs, without jobs that have left their claim.
func (r *Shard) GiveBack(ctx context.Context, queue string, jobs []Job) (n int, err error) {
	jobs = slices.Clone(jobs)
	slices.Reverse(jobs)
	for some := range slices.Chunk(jobs, claimBatch) {
		args := []any{r.QueueKey(queue, "t:"), (&Return{Why: Crashed}).text()}
		for _, j := range some {
			args = append(args, j.ID, j.Claim)
		}
		back, err := giveBackScript.Run(ctx, r.alone, r.queueKeys(queue, "active", "pending", "idle"), args...).Int()
		if n += back; err != nil {
			return n, fmt.Errorf("give jobs back: %w", err)
		}
	}
	return n, nil
}
