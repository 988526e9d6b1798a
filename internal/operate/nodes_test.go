package operate

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// What waits in shards that do not answer is told as it was, and not at all of one that never
// did.
func TestWaitingInShards(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		records := ledger.NewRecords(client, "", 0)
		n := &push.Notification{ID: "one", App: "shop", User: "ada", Title: "t", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}}
		if _, err := push.NewProducer(client, "", 0).Enqueue(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if _, at := records.Waited(0); !at.IsZero() {
			t.Errorf("it was asked at %s", at)
		}
		if _, err := records.WithOutcomes(10).Counts(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, at := records.Waited(0)
		now := map[int]ledger.Counts{1: {Accepted: 7, Ended: map[push.State]int64{push.Delivered: 3}}}
		for _, c := range []struct {
			shards []int
			want   int64 // negative for not known
			at     time.Time
		}{
			{[]int{}, 0, time.Time{}}, {[]int{1}, 4, time.Time{}}, {[]int{0, 1}, 5, at.UTC()}, {[]int{0, 1, 2}, -1, time.Time{}},
		} {
			n, since := waitingIn(c.shards, records, now)
			if (n == nil) != (c.want < 0) || n != nil && *n != c.want || !since.Equal(c.at) {
				t.Errorf("%v: %v wait as of %s, want %d as of %s", c.shards, n, since, c.want, c.at)
			}
		}
	})
}
