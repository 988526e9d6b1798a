package control

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/worker/clock"
)

// droppedEvery is how often the log names the apps of which something was dropped.
const droppedEvery = time.Minute

// droppedText is the log line by what was dropped.
var droppedText = map[string]string{
	ledger.DeadLetters:      "an app has more dead letters than worker.dead_letters: the oldest were deleted",
	ledger.OutcomeReports:   "an app has more outcomes than worker.outcomes: the oldest were deleted before its webhook had taken them",
	ledger.DeadTokenReports: "an app has more reports of dead tokens than worker.dead_tokens: the oldest were deleted before its webhook had taken them",
}

// LogDropped logs, until ctx ends, how much of each app was dropped in the last minute. One
// of all workers does so; what was logged is in Redis:
//
//	{dropped}:turn      string: one worker has logged within the minute
//	{dropped}:logged    hash: what was logged, as in a shard's counts
func (c *Control) LogDropped(ctx context.Context, log *slog.Logger) {
	clock.Every(ctx, droppedEvery, func() { c.logDropped(ctx, log) })
}

// logDropped logs once. While Redis does not answer, others log that; the next minute's line
// has the sum.
func (c *Control) logDropped(ctx context.Context, log *slog.Logger) {
	counts, err := c.records.Counts(ctx)
	if err != nil || len(counts.Dropped) == 0 {
		return
	}
	base := c.records.Prefix() + ":{dropped}:"
	if first, err := c.client.SetNX(ctx, base+"turn", 1, droppedEvery-time.Second).Result(); err != nil || !first {
		return
	}
	logged, err := c.client.HGetAll(ctx, base+"logged").Result()
	if err != nil {
		return
	}
	byApp := func(a, b ledger.Dropped) int { return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.What, b.What)) }
	for _, d := range slices.SortedFunc(maps.Keys(counts.Dropped), byApp) {
		total, field := counts.Dropped[d], d.What+":"+d.App
		before, _ := strconv.ParseInt(logged[field], 10, 64)
		if total == before || c.client.HSet(ctx, base+"logged", field, total).Err() != nil {
			continue
		}
		if total > before && droppedText[d.What] != "" { // fewer where Redis has lost some
			log.LogAttrs(ctx, slog.LevelWarn, droppedText[d.What], slog.String("app", d.App), slog.Int64("deleted", total-before), slog.Int64("in_all", total))
		}
	}
}
