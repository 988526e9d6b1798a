package route

import (
	"sync"
	"time"
)

// staggerGap lies between two blocked notifications of a route, so that the more
// there are, the less often each of them looks, and what is not blocked has the
// queue to itself. It is also how fast they are sent when the route opens:
// 1,000 a second from each process, which spares a provider that comes up.
const staggerGap = time.Millisecond

// A Stagger spreads the returns of blocked notifications, by queue. The zero value is
// ready to use.
type Stagger struct {
	mu   sync.Mutex
	last map[string]time.Time
	due  map[int64]int // how many come back within each dueStep since 1970
}

const dueStep = 100 * time.Millisecond

// Next returns after how long a notification of that queue comes back, when it is
// blocked for so long.
func (s *Stagger) Next(queue string, now time.Time, left time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last, s.due = make(map[string]time.Time), make(map[int64]int)
	}
	at := now.Add(left)
	if next := s.last[queue].Add(staggerGap); next.After(at) {
		at = next
	}
	s.last[queue] = at
	s.due[at.UnixNano()/int64(dueStep)]++
	return at.Sub(now)
}

// waiting is about how many are yet to come back. Any worker may take them up
// then, and counts them if they are still blocked.
func (s *Stagger) waiting(now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for step, some := range s.due {
		if step < now.UnixNano()/int64(dueStep) {
			delete(s.due, step)
			continue
		}
		n += some
	}
	return n
}
