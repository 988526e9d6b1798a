package control

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/worker/clock"
)

// SumsEvery is how often the sums are read. What was accepted since is not known when
// Redis loses it.
const SumsEvery = 2 * time.Second

// TellLosses has the log tell, until ctx ends, when Redis has accepted fewer than before:
// it has come back empty, from an old snapshot, or as a replica that lagged far behind.
// Each shard is compared with what it said last: of one whose sums cannot be read nothing is
// told, as in its trouble, of which others tell.
func (c *Control) TellLosses(ctx context.Context, log *slog.Logger) {
	last := map[int]store.Counts{}
	clock.Every(ctx, SumsEvery, func() {
		counts, err := c.records.PrimaryCounts(ctx)
		if _, err := store.Unread(err); err != nil {
			return
		}
		var waited int64
		var before, now store.Counts // of those that have lost some
		for shard, one := range counts {
			if n, fewer := lost(last[shard], one); fewer {
				waited, before, now = waited+n, before.Plus(last[shard]), now.Plus(one)
			}
			last[shard] = one
		}
		if before.Accepted > 0 {
			log.LogAttrs(ctx, slog.LevelError, fmt.Sprintf("Redis no longer has what was accepted: about %d notifications that waited are gone; have them sent again, and have Redis persist its keys (appendonly yes)", waited),
				slog.Int64("accepted_before", before.Accepted), slog.Int64("accepted_now", now.Accepted))
		}
	})
}

// lost reports whether fewer have been accepted than before, and returns how many of those
// are gone, at most, that waited. Nothing else lessens what was accepted.
func lost(before, now store.Counts) (waited int64, fewer bool) {
	gone := before.Accepted - now.Accepted
	return max(0, min(gone, before.Waiting())), gone > 0
}
