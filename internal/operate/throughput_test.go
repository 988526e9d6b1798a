package operate

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

// Each minute counts only in the bucket in which it began.
func TestMinuteCountsInOneBucket(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 13, 7, 30, 0, time.UTC)
	ago := func(minutes int) control.Minute {
		return control.Minute{
			At: now.Truncate(time.Minute).Add(-time.Duration(minutes) * time.Minute), Sent: 10, Deferred: 5,
			Ended: map[push.State]int64{push.Delivered: 4, push.Rejected: 1, push.Exhausted: 1, push.Undeliverable: 1, store.Malformed: 1, push.Expired: 9},
		}
	}
	minutes := []control.Minute{ago(23*60 + 53), ago(23*60 + 52), ago(60), ago(59), ago(15), ago(14), ago(0), ago(-1)}
	for r, want := range map[Range]struct{ first, last, sum int64 }{QuarterHour: {10, 10, 20}, Hour: {10, 10, 40}, Day: {10, 10, 60}} {
		got := newThroughput(now, r)
		got.add(minutes)
		first, last := got.Buckets[0], got.Buckets[len(got.Buckets)-1]
		sum := int64(0)
		for i, b := range got.Buckets {
			if i > 0 && b.At.Sub(got.Buckets[i-1].At) != got.Every {
				t.Errorf("%s: %s follows %s", r, b.At, got.Buckets[i-1].At)
			}
			sum += b.Sent
		}
		if r == Day {
			want.last = 20 // includes a minute of a clock that is ahead
			want.sum = 70
		}
		if first.Sent != want.first || last.Sent != want.last || sum != want.sum || last.At.After(now) || now.Sub(last.At) >= got.Every {
			t.Errorf("%s: first %+v, last %+v, %d in all", r, first, last, sum)
		}
		if first.Delivered != 4 || first.Failed != 4 || first.Deferred != 5 {
			t.Errorf("%s: %+v", r, first)
		}
	}
}
