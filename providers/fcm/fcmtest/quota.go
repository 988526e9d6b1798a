package fcmtest

import (
	"sync"
	"time"
)

// A Quota is a token bucket: Count messages at once, and Count more in each Per.
type Quota struct {
	Count int
	Per   time.Duration
}

// quotas hold one bucket for each name.
type quotas struct {
	quota Quota

	mu      sync.Mutex
	buckets map[string]*bucket
}

type bucket struct {
	left float64
	at   time.Time
}

// take takes one message from name's bucket. When it is empty, take returns how
// long it takes until there is one again.
func (q *quotas) take(name string, now time.Time) (wait time.Duration, ok bool) {
	if q.quota.Count <= 0 || q.quota.Per <= 0 {
		return 0, true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.buckets == nil {
		q.buckets = make(map[string]*bucket)
	}
	most := float64(q.quota.Count)
	b := q.buckets[name]
	if b == nil {
		b = &bucket{left: most, at: now}
		q.buckets[name] = b
	}
	each := float64(q.quota.Per) / most
	b.left = min(most, b.left+float64(now.Sub(b.at))/each)
	b.at = now
	if b.left < 1 {
		return time.Duration((1 - b.left) * each), false
	}
	b.left--
	return 0, true
}
