package control

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/worker/clock"
)

// sumsEvery is how often the sums are read. What was accepted since is not known when
// Redis loses it.
const sumsEvery = 2 * time.Second

// TellLosses has the log tell, until ctx ends, when Redis has accepted fewer than before:
// it has come back empty, from an old snapshot, or as a replica that lagged far behind.
// Where the sums cannot be read nothing is told, as in its trouble, of which others tell.
func (c *Control) TellLosses(ctx context.Context, log *slog.Logger) {
	var before ledger.Counts
	clock.Every(ctx, sumsEvery, func() {
		now, err := c.records.PrimaryCounts(ctx)
		if err != nil {
			return
		}
		if n, fewer := lost(before, now); fewer {
			log.LogAttrs(ctx, slog.LevelError, fmt.Sprintf("Redis no longer has what was accepted: about %d notifications that waited are gone; have them sent again, and have Redis persist its keys (appendonly yes)", n),
				slog.Int64("accepted_before", before.Accepted), slog.Int64("accepted_now", now.Accepted))
		}
		before = now
	})
}

// lost reports whether fewer have been accepted than before, and returns how many of those
// are gone, at most, that waited. Nothing else lessens what was accepted.
func lost(before, now ledger.Counts) (waited int64, fewer bool) {
	gone := before.Accepted - now.Accepted
	return max(0, min(gone, before.Waiting())), gone > 0
}
