package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/push"
)

// An event with unreadable targets is returned without targets, and does not block the other
// events.
func TestUnreadableTargetsKeepEvents(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		for i, targets := range []string{`[{"kind":"delivered"}]`, `[{`, "", `[]`} {
			must(t, client.XAdd(t.Context(), &redis.XAddArgs{Stream: shard.NewShards(client, "pushpace", 1)[0].Key("outcomes:shop"), Values: []string{"id", fmt.Sprint(i), "targets", targets}}).Err())
		}
		events, err := store.NewOutcomes(store.NewRecords(client, "", 0).WithShards(1)).Next(t.Context(), "shop", "mine", time.Hour, 100)
		if err != nil || len(events) != 4 {
			t.Fatalf("%+v, %v", events, err)
		}
		for i, e := range events {
			if e.ID != fmt.Sprint(i) || e.Targets == nil || (len(e.Targets) == 1) != (i == 0) {
				t.Errorf("%+v", e)
			}
		}
	})
}

// A repeated end is reported once.
func TestRepeatedEndIsReportedOnce(t *testing.T) {
	redistest.OverAll(t, func(t *testing.T, client redis.UniversalClient, prefix string) {
		counts := shard.NewShards(client, prefix, 1)[0].Key("counts")
		spoil := func(count string) {
			t.Helper()
			must(t, client.HSet(t.Context(), counts, "delivered", count).Err())
		}
		records := store.NewRecords(client, prefix, 0).WithShards(1).WithBounds(store.Bounds{Outcomes: 100})
		n := &push.Notification{ID: "tried", App: "shop", User: "ada"}
		must(t, storetest.At(t, records, n.ID).Arrive(t.Context(), n.ID, n.Priority.Queue(), store.Facts{App: n.App, User: n.User}))
		end := store.End{State: push.Delivered, Outcomes: []store.TargetOutcome{{Kind: "delivered"}}, Attempts: 1, App: n.App}
		spoil("abc")
		for range 3 {
			if _, err := storetest.At(t, records, n.ID).Settle(t.Context(), n.ID, &end); err == nil {
				t.Fatal("the end is recorded although its count cannot be")
			}
		}
		spoil("0")
		if first, err := storetest.At(t, records, n.ID).Settle(t.Context(), n.ID, &end); err != nil || !first {
			t.Errorf("%t, %v", first, err)
		}
		if events, err := store.NewOutcomes(store.NewRecords(client, prefix, 0).WithShards(1)).Next(t.Context(), "shop", "g", 0, 10); err != nil || len(events) != 1 {
			t.Errorf("told %+v, %v", events, err)
		}
	})
}

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
