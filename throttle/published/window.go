package published

import (
	"fmt"
	"math"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// A WeightedWindow counts this period of the clock and the one before, and weighs the older
// count by how much of it a window that ends now would hold if it had come evenly. It is
// that of https://blog.cloudflare.com/counting-things-a-lot-of-different-things/. One
// less than twice the count may pass within a period. Denied attempts do not count. It is
// in memory, and safe for concurrent use.
type WeightedWindow struct {
	count, period int64 // µs
	now           func() time.Time
	ids           *kept[weighted]
}

// A weighted state is the index of a period, and the counts of the one before and of it.
type weighted struct{ index, before, current int64 }

// NewWeightedWindow returns a window of that rate, by a clock; nil means time.Now.
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

// Limit makes an attempt. A blocked attempt does not count, and its Left is the time until
// the next one passes without others between.
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

// take is an attempt so many µs after the period began.
func (w *WeightedWindow) take(k *weighted, passed int64) Result {
	used := float64(k.before)*float64(w.period-passed)/float64(w.period) + float64(k.current)
	if used+1 <= float64(w.count) {
		k.current++
		return Result{Remaining: int(float64(w.count) - used - 1)}
	}
	free := func(before, current int64) int64 { // from when on in a period there is room for one
		return int64(math.Ceil(float64(before-(w.count-1-current)) * float64(w.period) / float64(before)))
	}
	left := w.period - passed + free(k.current, 0)
	if k.current < w.count {
		left = max(1, free(k.before, k.current)-passed)
	}
	return Result{Blocked: true, ByCount: true, Left: time.Duration(left) * time.Microsecond}
}
