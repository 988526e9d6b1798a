package control

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/worker/clock"
)

// droppedEvery is the interval between two log messages about an app, so that a flood does not fill the
// log.
const droppedEvery = time.Minute

// droppedMessages is the log message of each kind.
var droppedMessages = map[string]string{
	store.DeadLetters:      "an app has more dead letters than worker.dead_letters: the oldest were deleted",
	store.OutcomeReports:   "an app has more outcomes than worker.outcomes: the oldest were deleted before its webhook had taken them",
	store.DeadTokenReports: "an app has too many reports of dead tokens: the oldest were deleted before its webhook had taken them",
}

// LogDropped logs once a minute, until ctx ends, how many dead letters and reports were pruned of each
// app. One worker logs for all workers. In Redis:
//
//	{dropped}:turn      string: a worker has logged within the minute
//	{dropped}:logged    hash: the totals at the last log message
func (c *Control) LogDropped(ctx context.Context, log *slog.Logger) {
	clock.Every(ctx, droppedEvery, func() { c.logDropped(ctx, log) })
}

// logDropped logs once. After an error of Redis, which other code logs, the next minute's message has the
// sum.
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
	byApp := func(a, b store.Dropped) int { return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Kind, b.Kind)) }
	for _, d := range slices.SortedFunc(maps.Keys(counts.Dropped), byApp) {
		total, field := counts.Dropped[d], d.Kind+":"+d.App
		before, _ := strconv.ParseInt(logged[field], 10, 64)
		if total == before || c.client.HSet(ctx, base+"logged", field, total).Err() != nil {
			continue
		}
		if total > before && droppedMessages[d.Kind] != "" { // smaller if Redis has lost counts
			log.LogAttrs(ctx, slog.LevelWarn, droppedMessages[d.Kind], slog.String("app", d.App), slog.Int64("deleted", total-before), slog.Int64("in_all", total))
		}
	}
}
