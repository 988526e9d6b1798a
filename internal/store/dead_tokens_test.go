package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

func TestDeadTokensAreReturnedUntilAcknowledged(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		reports, ctx := store.NewDeadTokens(store.NewRecords(client, "", 0).WithShards(1), 0), t.Context()
		next := func(left time.Duration, n int) []store.DeadToken {
			t.Helper()
			got, err := reports.Next(ctx, "shop", "group", left, n)
			must(t, err)
			return got
		}
		if got := next(time.Hour, 10); len(got) != 0 {
			t.Fatalf("nothing was reported, and %+v is read", got)
		}
		at := time.Date(2026, 11, 20, 20, 0, 0, 123_000_000, time.UTC)
		want := []store.DeadToken{
			{App: "shop", User: "u1", Platform: push.APNs, Token: "t1", Reason: "Unregistered", Since: at.Add(-time.Hour), Notification: "n1", At: at},
			{App: "shop", User: "ü 2", Platform: push.FCM, FID: "t2", Reason: "UNREGISTERED", Notification: "n2", At: at},
		}
		must(t, reports.Add(ctx, want...))
		got := slices.Concat(next(time.Hour, 1), next(time.Hour, 10))
		for i := range got {
			if got[i].Entry == "" {
				t.Error("a report has no entry")
			}
			want[i].Entry = got[i].Entry
		}
		if !slices.Equal(got, want) {
			t.Errorf("read %+v, want %+v", got, want)
		}
		if again := next(time.Hour, 10); len(again) != 0 {
			t.Errorf("read twice: %+v", again)
		}
		if other, err := reports.Next(ctx, "shop", "other", time.Hour, 10); err != nil || len(other) != 2 {
			t.Errorf("another group reads %+v, %v", other, err)
		}
		// The reader took both reports, acknowledged the first and stopped.
		must(t, reports.Ack(ctx, "shop", "group", got[0]))
		if left := next(0, 10); len(left) != 1 || left[0] != want[1] {
			t.Errorf("left behind: %+v, want the second", left)
		}
		// An entry that was deleted from the stream is not returned any more.
		must(t, client.XTrimMaxLen(ctx, shard.NewShards(client, "pushpace", 1)[0].Key("dead-tokens:shop"), 0).Err())
		if left := next(0, 10); len(left) != 0 {
			t.Errorf("left behind, and dropped: %+v", left)
		}
	})
}
