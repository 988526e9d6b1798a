package webpush

import (
	"context"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/pushpace/pushpace/providers"
)

// What one host that is not a known service's may take up.
const (
	// maxStrangers bounds the hosts that are remembered.
	maxStrangers = 1024
	// strangerInFlight bounds the pushes on their way to one host.
	strangerInFlight = 8
	// strangerFailures is how many pushes in a row fail before the host is left alone.
	strangerFailures = 3
	// The host is left alone for minBackoff, and twice as long after each further failure,
	// up to maxBackoff.
	minBackoff = 5 * time.Second
	maxBackoff = 5 * time.Minute
)

// strangers are the hosts that are not a known service's. They fail one by one: what one
// does keeps no other back.
type strangers struct {
	// slots bound the pushes on their way to all of them.
	slots  chan struct{}
	adding sync.Mutex
	byHost *lru.Cache[string, *stranger]
}

// A stranger is one of them.
type stranger struct {
	slots chan struct{}

	mu       sync.Mutex
	failures int // in a row
	until    time.Time
}

func newStrangers() *strangers {
	byHost, _ := lru.New[string, *stranger](maxStrangers) // fails for no size
	return &strangers{slots: make(chan struct{}, maxInFlight), byHost: byHost}
}

// get returns what is known of a host.
func (s *strangers) get(host string) *stranger {
	s.adding.Lock()
	defer s.adding.Unlock()
	if kept, ok := s.byHost.Get(host); ok {
		return kept
	}
	made := &stranger{slots: make(chan struct{}, strangerInFlight)}
	s.byHost.Add(host, made)
	return made
}

// enter waits for a push's turn, first among those to its host. When err is nil the
// caller calls leave once the push is over.
func (s *strangers) enter(ctx context.Context, to *stranger) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for i, slots := range []chan struct{}{to.slots, s.slots} {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			if i > 0 {
				<-to.slots
			}
			return nil, ctx.Err()
		}
	}
	return func() { <-s.slots; <-to.slots }, nil
}

// left returns for how long the host is left alone still, 0 if it is not.
func (s *stranger) left(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.until.Sub(now))
}

// note says what became of a push.
func (s *stranger) note(failed bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !failed:
		s.failures, s.until = 0, time.Time{}
	case now.Before(s.until): // it was on its way already
	default:
		s.failures++
		s.until = now.Add(backoff(s.failures))
	}
}

// backoff is for how long a host is left alone that failed so often in a row.
func backoff(failures int) time.Duration {
	if failures < strangerFailures {
		return 0
	}
	return min(minBackoff<<min(failures-strangerFailures, 10), maxBackoff)
}

// leftAlone is the outcome of a push that is not made because its host is left alone.
func leftAlone(host string, left time.Duration) providers.Outcome {
	return providers.Outcome{
		Kind: providers.Retry, Reason: providers.OriginBackoff, NotSent: true, Concerns: providers.ConcernsToken, RetryAfter: max(left, providers.MinRetryAfter),
		Err: fmt.Errorf("%s has failed several times in a row, and is left alone for a while", host),
	}
}
