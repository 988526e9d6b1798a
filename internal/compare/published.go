package compare

import (
	"context"
	"math"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/published"
)

// What others publish, faults included. Where nothing is told of when to come
// back, it is when something that is asked alone is let through.

// rollingRateLimiter is rolling-rate-limiter, under which denied attempts count.
type rollingRateLimiter struct {
	*published.Limiter
	ids []string
	now int64
}

func newRollingRateLimiter(gap time.Duration, rate throttle.Rate, ids []string) (*rollingRateLimiter, error) {
	l := &rollingRateLimiter{ids: ids}
	var err error
	l.Limiter, err = published.NewMemory(published.Options{
		Interval: rate.Period, Max: rate.Count, MinGap: gap,
		Now: func() time.Time { return time.UnixMicro(l.now) },
	})
	return l, err
}

func (l *rollingRateLimiter) take(key int32, now int64) (left int64, taken bool) {
	l.now = now
	r, _ := l.Limit(context.Background(), l.ids[key]) // in memory it has no error
	if r.Blocked {
		return r.Left.Microseconds(), false
	}
	return 0, true
}

// weightedWindow is two counters, of which the one before is weighted by how much
// of it a window that ends now would hold if it had come evenly.
type weightedWindow struct {
	count, period int64
	keys          []weighted
}

type weighted struct{ index, before, current int64 }

func newWeightedWindow(rate throttle.Rate, keys int) *weightedWindow {
	return &weightedWindow{int64(rate.Count), rate.Period.Microseconds(), make([]weighted, keys)}
}

func (w *weightedWindow) take(key int32, now int64) (left int64, taken bool) {
	k := &w.keys[key]
	switch index := now / w.period; {
	case index == k.index+1:
		*k = weighted{index, k.current, 0}
	case index != k.index:
		*k = weighted{index: index}
	}
	passed := now - k.index*w.period
	if float64(k.before)*float64(w.period-passed)/float64(w.period)+float64(k.current+1) <= float64(w.count) {
		k.current++
		return 0, true
	}
	free := func(before, current int64) int64 { // from when on in a window there is room for one
		return int64(math.Ceil(float64(before-(w.count-1-current)) * float64(w.period) / float64(before)))
	}
	if k.current < w.count {
		return max(1, free(k.before, k.current)-passed), false
	}
	return w.period - passed + free(k.current, 0), false
}

// pipelinedCounters are INCR and EXPIRE for each rate, in one pipeline: what one
// rate denies is charged to all.
type pipelinedCounters struct {
	rates []throttle.Rate
	keys  [][]cellCount // of each key one for each rate
}

type cellCount struct{ index, count int64 }

func newPipelinedCounters(rates []throttle.Rate, keys int) *pipelinedCounters {
	return &pipelinedCounters{rates, make([][]cellCount, keys)}
}

func (p *pipelinedCounters) take(key int32, now int64) (left int64, taken bool) {
	if p.keys[key] == nil {
		p.keys[key] = make([]cellCount, len(p.rates))
	}
	for i, r := range p.rates {
		c, period := &p.keys[key][i], r.Period.Microseconds()
		if index := now / period; c.index != index {
			*c = cellCount{index: index}
		}
		if c.count++; c.count > int64(r.Count) {
			left = max(left, (c.index+1)*period-now)
		}
	}
	return left, left == 0
}

// flooredBucket is a token bucket by a script that is copied a lot: on the caller's
// clock in ms, whole tokens are filled in, and the fraction of one is lost each time.
type flooredBucket struct {
	burst, count, period int64 // µs
	keys                 []floored
}

type floored struct{ used, last int64 } // last in ms; used, so that zero is full

func newFlooredBucket(rate throttle.Rate, burst, keys int) *flooredBucket {
	return &flooredBucket{int64(burst), int64(rate.Count), rate.Period.Microseconds(), make([]floored, keys)}
}

func (b *flooredBucket) take(key int32, now int64) (left int64, taken bool) {
	k, ms := &b.keys[key], now/1000
	if *k == (floored{}) { // the instants of recorded arrivals begin at 0, and those of its clock do not
		k.last = ms
	}
	if filled := int64(float64(ms-k.last) * 1000 * float64(b.count) / float64(b.period)); filled > 0 {
		k.used, k.last = max(0, k.used-filled), ms
	}
	if k.used < b.burst {
		k.used++
		return 0, true
	}
	next := k.last + (b.period+1000*b.count-1)/(1000*b.count)
	return max(1, next*1000-now), false
}
