package route

import (
	"fmt"
	"sync"
	"time"

	"github.com/pushpace/pushpace/providers"
)

// A deadTokenRatio watches the share of dead tokens among an app's pushes to one
// push service. When most tokens are dead, the environment or the sender is wrong
// more often than all of them were uninstalled: from then on none is dropped.
// The zero value is ready to use.
type deadTokenRatio struct {
	mu      sync.Mutex
	buckets [ratioBuckets]bucket
	on      bool
}

// A bucket counts a part of the window.
type bucket struct {
	period      int64 // its number since 1970
	sends, dead int
}

const (
	ratioBuckets = 12
	ratioBucket  = 5 * time.Second // twelve of them are a minute
	// A spike begins when more than half of so many sends of the last minute met a
	// dead token, and ends when of so many sends since no more than half did.
	ratioBegins = 100
	ratioEnds   = 20
)

// tooMany decides whether so many dead tokens among the sends of the window are
// a spike. While there is one, the window begins with it.
func tooMany(on bool, sends, dead int) bool {
	if on {
		return sends < ratioEnds || 2*dead > sends
	}
	return sends >= ratioBegins && 2*dead > sends
}

// judge takes an outcome in, and returns what is to be made of it: a dead token
// within a spike is a sign of a wrong configuration. on says that there is one.
func (s *deadTokenRatio) judge(now time.Time, o providers.Outcome) (judged providers.Outcome, on bool) {
	if o.Kind != providers.Delivered && o.Kind != providers.DeadToken {
		return o, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.on
	sends, dead := s.count(now, o.Kind == providers.DeadToken)
	s.on = tooMany(was, sends, dead)
	if s.on != was {
		s.buckets = [ratioBuckets]bucket{}
	}
	if !s.on || o.Kind != providers.DeadToken {
		return o, s.on
	}
	return providers.Outcome{
		Kind: providers.Misconfigured, Reason: providers.DeadTokenSpike, Concerns: providers.ConcernsApp,
		Err: fmt.Errorf("most tokens are dead, so that none is dropped: check the app's environment and credentials: %w", o.Err),
	}, true
}

// begin is what is to be done when another worker has seen the spike begin.
func (s *deadTokenRatio) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.on {
		s.on, s.buckets = true, [ratioBuckets]bucket{}
	}
}

// reset forgets the window, and that there was a spike.
func (s *deadTokenRatio) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on, s.buckets = false, [ratioBuckets]bucket{}
}

// count adds one send, and sums up the window.
func (s *deadTokenRatio) count(now time.Time, isDead bool) (sends, dead int) {
	period := now.UnixNano() / int64(ratioBucket)
	b := &s.buckets[period%ratioBuckets]
	if b.period != period {
		*b = bucket{period: period}
	}
	b.sends++
	if isDead {
		b.dead++
	}
	for i := range s.buckets {
		if b := &s.buckets[i]; period-b.period < ratioBuckets {
			sends, dead = sends+b.sends, dead+b.dead
		}
	}
	return sends, dead
}
