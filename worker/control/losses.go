package control

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/worker/clock"
)

// SumsEvery is the interval between two reads of the shards' sums. A loss of notifications accepted since
// the last read is not detected.
const SumsEvery = 2 * time.Second

// RecordLosses logs and records, until ctx ends, when a shard has fewer accepted notifications than at the last
// read: Redis came back empty, from an old snapshot, or as a replica that lagged far behind. It
// skips a shard that cannot be read; other code logs that. It also records the losses given to NoteLoss.
func (c *Control) RecordLosses(ctx context.Context, log, redisLog *slog.Logger) {
	last := map[int]store.Counts{}
	unrecorded := clock.Trouble{Log: redisLog, Begins: "a loss of data in Redis cannot be recorded yet", Ends: "the loss of data in Redis is recorded"}
	clock.Every(ctx, SumsEvery, func() {
		defer func() { unrecorded.Failing(ctx, c.recordLoss(ctx)) }()
		counts, err := c.records.PrimaryCounts(ctx)
		if _, err := store.Unreachable(err); err != nil {
			return
		}
		var waited int64
		var before, now store.Counts // sums of the shards with losses
		for shard, one := range counts {
			if n, fewer := lost(last[shard], one); fewer {
				waited, before, now = waited+n, before.Plus(last[shard]), now.Plus(one)
			}
			last[shard] = one
		}
		if before.Accepted > 0 {
			c.NoteLoss(Loss{Notifications: waited})
			log.LogAttrs(ctx, slog.LevelError, fmt.Sprintf("Redis has lost accepted notifications: about %d waiting notifications are gone; send them again, and set appendonly yes", waited),
				slog.Int64("accepted_before", before.Accepted), slog.Int64("accepted_now", now.Accepted))
		}
	})
}

// lost reports whether the sum of accepted notifications fell, which only a loss causes. waited is how
// many of the lost notifications waited, at most.
func lost(before, now store.Counts) (waited int64, fewer bool) {
	gone := before.Accepted - now.Accepted
	return max(0, min(gone, before.Waiting())), gone > 0
}
