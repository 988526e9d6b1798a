package route

import (
	"sync"
	"time"
)

// staggerGap lies between two blocked notifications, so that the more there are, the
// less often each of them looks, and what is not blocked has the queue to itself.
const staggerGap = time.Millisecond

// A Stagger spreads the looks of blocked notifications, by queue. The zero value is
// ready to use.
type Stagger struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// farthest is how much later than at the soonest it may be: then most were woken
// meanwhile, and have moved the others on for nothing.
const farthest = time.Hour

// Next returns after how long a notification of that queue looks, after so long at the
// soonest.
func (s *Stagger) Next(queue string, now time.Time, left time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = make(map[string]time.Time)
	}
	at := now.Add(left)
	if next := s.last[queue].Add(staggerGap); next.After(at) && next.Sub(now) <= left+farthest {
		at = next
	}
	s.last[queue] = at
	return at.Sub(now)
}
