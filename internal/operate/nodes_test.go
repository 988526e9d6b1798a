package operate

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// The count of a shard that does not answer is the last known one. It is unknown if the shard
// never answered.
func TestSilentShardKeepsLastCount(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		records := store.NewRecords(client, "", 0)
		waitingFor(t, client, "one", 1, push.Notification{App: "shop", Targets: toFCM})
		if told := records.LastWaitingBefore(time.Now()); told != nil {
			t.Errorf("it was not asked, and told %+v", told)
		}
		_, err := records.WithBounds(store.Bounds{Outcomes: 10}).Counts(t.Context())
		must(t, err)
		told := records.LastWaitingBefore(time.Now())
		its := slices.IndexFunc(told, func(w store.LastWaiting) bool { return w.Waiting == 1 })
		first := slices.MinFunc(told, func(a, b store.LastWaiting) int { return a.At.Compare(b.At) }).At
		if shards, err := records.All(t.Context()); err != nil || len(told) != len(shards) || its < 0 || records.LastWaitingBefore(first) != nil {
			t.Fatalf("%+v, %v", told, err)
		}
		at := told[its].At
		early := at.Add(-time.Minute)
		last := map[int]store.LastWaiting{0: told[its], 3: {Shard: 3, Waiting: 9, At: early}}
		now := map[int]store.Counts{1: {Accepted: 7, Ended: map[push.State]int64{push.Delivered: 3}}}
		for _, c := range []struct {
			shards []int
			want   int64 // negative: unknown
			at     time.Time
		}{
			{[]int{}, 0, time.Time{}}, {[]int{1}, 4, time.Time{}}, {[]int{0, 1}, 5, at}, {[]int{0, 1, 3}, 14, early}, {[]int{0, 1, 2}, -1, time.Time{}},
		} {
			n, since := waitingIn(c.shards, now, last)
			if (n == nil) != (c.want < 0) || n != nil && *n != c.want || !since.Equal(c.at) {
				t.Errorf("%v: %v wait as of %s, want %d as of %s", c.shards, n, since, c.want, c.at)
			}
		}
	})
}
