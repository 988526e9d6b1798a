package published

import (
	"fmt"
	"math"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// A WeightedWindow counts the attempts of the clock's current and previous period. It weights the
// previous period's count by the share of that period that a window ending now covers, as if its
// attempts had come evenly. https://blog.cloudflare.com/counting-things-a-lot-of-different-things/
// describes it. In the worst case, 2N−1 attempts pass within one period, with N as the rate's
// count. Denied attempts do not count. The state is in memory. Safe for concurrent use.
type WeightedWindow struct {
	count, period int64 // µs
	now           func() time.Time
	ids           *kept[weighted]
}

// A weighted state is the index of a period, and the counts of the period before and of this one.
type weighted struct{ index, before, current int64 }

// NewWeightedWindow returns a window of that rate. now is the clock; nil means time.Now.
func NewWeightedWindow(rate throttle.Rate, now func() time.Time) (*WeightedWindow, error) {
	if err := rate.Validate(); err != nil {
		return nil, fmt.Errorf("throttle: published: %w", err)
	}
	if now == nil {
		now = time.Now
	}
	period := rate.Period.Microseconds()
	return &WeightedWindow{int64(rate.Count), period, now, newKept(func(w weighted, now int64) bool { return w.index < now/period-1 })}, nil
}

// Limit makes an attempt. A blocked attempt does not count; its Left is the time after which the
// next attempt passes, if no other comes before.
func (w *WeightedWindow) Limit(id string) Result {
	now := w.now().UnixMicro()
	var r Result
	w.ids.change(id, now, func(k *weighted) {
		switch index := now / w.period; {
		case index == k.index+1:
			*k = weighted{index, k.current, 0}
		case index != k.index:
			*k = weighted{index: index}
		}
		r = w.take(k, now-k.index*w.period)
	})
	return r
}

// take makes an attempt passed µs after the start of the period.
func (w *WeightedWindow) take(k *weighted, passed int64) Result {
	used := float64(k.before)*float64(w.period-passed)/float64(w.period) + float64(k.current)
	if used+1 <= float64(w.count) {
		k.current++
		return Result{Remaining: int(float64(w.count) - used - 1)}
	}
	free := func(before, current int64) int64 { // µs into a period after which one attempt passes
		return int64(math.Ceil(float64(before-(w.count-1-current)) * float64(w.period) / float64(before)))
	}
	left := w.period - passed + free(k.current, 0)
	if k.current < w.count {
		left = max(1, free(k.before, k.current)-passed)
	}
	return Result{Blocked: true, ByCount: true, Left: time.Duration(left) * time.Microsecond}
}
