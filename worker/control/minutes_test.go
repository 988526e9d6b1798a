package control

import (
	"reflect"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// The counts of several workers for a minute are summed, and expire after a day.
func TestAddMinutesSumsSeveralWorkers(t *testing.T) {
	redistest.OverAll(t, func(t *testing.T, client redis.UniversalClient, prefix string) {
		at := time.Now().UTC().Truncate(time.Minute)
		before := at.Add(-2 * time.Minute)
		add := func(minutes ...Minute) {
			t.Helper()
			must(t, AddMinutes(t.Context(), client, prefix, minutes))
		}
		add(Minute{At: before, Sent: 1, Waiting: new(int64(9))}, Minute{At: before.Add(time.Minute), Waiting: new(int64(0))}, Minute{At: at, Sent: 3, Deferred: 1, Ended: map[push.State]int64{push.Delivered: 2}})
		add(Minute{At: at.Add(time.Second), Sent: 4, Ended: map[push.State]int64{push.Delivered: 1, push.Rejected: 1}})
		got, err := ReadMinutes(t.Context(), client, prefix, before, at)
		must(t, err)
		want := []Minute{
			{At: before, Sent: 1, Ended: map[push.State]int64{}, Waiting: new(int64(9))},
			{At: at, Sent: 7, Deferred: 1, Ended: map[push.State]int64{push.Delivered: 3, push.Rejected: 1}},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v", got)
		}
		for _, m := range want {
			if life := client.TTL(t.Context(), minuteKey(prefix, m.At)).Val(); life < 24*time.Hour || life > minuteLife {
				t.Errorf("%s lives for %s", m.At, life)
			}
		}
	})
}
