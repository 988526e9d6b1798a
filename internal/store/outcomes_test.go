package store_test

import (
	"fmt"
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
