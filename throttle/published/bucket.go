package published

import (
	"fmt"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// A FlooredBucket is a token bucket after a widely copied Lua script: on the caller's clock in
// ms, it refills whole tokens and loses the fraction of a token at each attempt.
// https://github.com/scylladb/seastar/issues/1723 describes the same fault. With frequent
// attempts the bucket refills at as little as half its rate. Denied attempts do not count. The
// state is in memory. Safe for concurrent use.
type FlooredBucket struct {
	burst, count, period int64 // the period in µs
	now                  func() time.Time
	ids                  *kept[floored]
}

// A floored state is the number of used tokens at the time since, in ms.
type floored struct{ used, since int64 }

// NewFlooredBucket returns full buckets of burst tokens, refilled at the rate. now is the clock;
// nil means time.Now.
func NewFlooredBucket(rate throttle.Rate, burst int, now func() time.Time) (*FlooredBucket, error) {
	if err := rate.Validate(); err != nil {
		return nil, fmt.Errorf("throttle: published: %w", err)
	}
	if burst < 1 {
		return nil, fmt.Errorf("throttle: published: burst %d: want 1 or more", burst)
	}
	if now == nil {
		now = time.Now
	}
	b := &FlooredBucket{burst: int64(burst), count: int64(rate.Count), period: rate.Period.Microseconds(), now: now}
	b.ids = newKept(func(f floored, now int64) bool { return f.used <= b.filled(f, now/1000) })
	return b, nil
}

// filled returns the whole tokens refilled until ms.
func (b *FlooredBucket) filled(f floored, ms int64) int64 {
	return int64(float64(ms-f.since) * 1000 * float64(b.count) / float64(b.period))
}

// Limit makes an attempt. A blocked attempt does not count; its Left is the time after which the
// next attempt passes, if no other comes before.
func (b *FlooredBucket) Limit(id string) Result {
	now := b.now().UnixMicro()
	var r Result
	b.ids.change(id, now, func(f *floored) {
		ms := now / 1000
		if f.used == 0 {
			f.since = ms
		} else if filled := b.filled(*f, ms); filled > 0 {
			f.used, f.since = max(0, f.used-filled), ms
		}
		if f.used < b.burst {
			f.used++
			r.Remaining = int(b.burst - f.used)
			return
		}
		next := f.since + (b.period+1000*b.count-1)/(1000*b.count)
		r = Result{Blocked: true, ByCount: true, Left: time.Duration(max(1, next*1000-now)) * time.Microsecond}
	})
	return r
}
