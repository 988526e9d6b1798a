package worker

import (
	"fmt"
	"sync"
	"time"

	"github.com/pushpace/pushpace/providers"
)

// A spike watches the share of dead tokens among an app's pushes to one
// platform. When most tokens are dead, the environment or the sender is wrong
// more often than all of them were uninstalled: from then on none is dropped.
// The zero value is ready to use.
type spike struct {
	mu      sync.Mutex
	buckets [spikeBuckets]bucket
	on      bool
}

// A bucket counts a part of the window.
type bucket struct {
	period      int64 // its number since 1970
	sends, dead int
}

const (
	spikeBuckets = 12
	spikeBucket  = 5 * time.Second // twelve of them are a minute
	// A spike begins when more than half of so many sends of the last minute met a
	// dead token, and ends when of so many sends since no more than half did.
	spikeBegins = 100
	spikeEnds   = 20
)

// spiking decides whether so many dead tokens among the sends of the window are
// a spike. While there is one, the window begins with it.
func spiking(on bool, sends, dead int) bool {
	if on {
		return sends < spikeEnds || 2*dead > sends
	}
	return sends >= spikeBegins && 2*dead > sends
}

// judge takes an outcome in, and answers what is to be made of it: a dead token
// within a spike is a sign of a wrong configuration. on says that there is one.
func (s *spike) judge(now time.Time, o providers.Outcome) (judged providers.Outcome, on bool) {
	if o.Kind != providers.Delivered && o.Kind != providers.DeadToken {
		return o, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.on
	sends, dead := s.count(now, o.Kind == providers.DeadToken)
	s.on = spiking(was, sends, dead)
	if s.on != was {
		s.buckets = [spikeBuckets]bucket{}
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
func (s *spike) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.on {
		s.on, s.buckets = true, [spikeBuckets]bucket{}
	}
}

// reset forgets the window, and that there was a spike.
func (s *spike) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on, s.buckets = false, [spikeBuckets]bucket{}
}

// count adds one send, and sums up the window.
func (s *spike) count(now time.Time, isDead bool) (sends, dead int) {
	period := now.UnixNano() / int64(spikeBucket)
	b := &s.buckets[period%spikeBuckets]
	if b.period != period {
		*b = bucket{period: period}
	}
	b.sends++
	if isDead {
		b.dead++
	}
	for i := range s.buckets {
		if b := &s.buckets[i]; period-b.period < spikeBuckets {
			sends, dead = sends+b.sends, dead+b.dead
		}
	}
	return sends, dead
}
