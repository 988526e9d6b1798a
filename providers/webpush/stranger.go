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
	// strangerInFlight bounds the pushes on their way to one host that is known to answer. To
	// another one a single push is on its way.
	strangerInFlight = 8
	// maxProbes bounds the hosts that are not known to answer, and have a push on its way: so
	// few of maxInFlight that the others go on beside them.
	maxProbes = maxInFlight / 8
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
	// slots bound the pushes on their way to all that are known to answer, and probes those
	// to the others.
	slots  chan struct{}
	probes chan struct{}
	adding sync.Mutex
	byHost *lru.Cache[string, *stranger]
}

// A stranger is one of them.
type stranger struct {
	slots chan struct{}

	mu       sync.Mutex
	failures int // in a row
	until    time.Time
	// answers says that it has, and has not failed too often since. Until then it is probed:
	// probed says that a push is on its way.
	answers, probed bool
}

func newStrangers() *strangers {
	byHost, _ := lru.New[string, *stranger](maxStrangers) // fails for no size
	return &strangers{slots: make(chan struct{}, maxInFlight-maxProbes), probes: make(chan struct{}, maxProbes), byHost: byHost}
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

// enter lets a push go to a host, or says for how long that is left alone. One that is known
// to answer it waits for: first for a place among those to the host. When err is nil and left
// 0 the caller calls leave once the push is over.
func (s *strangers) enter(ctx context.Context, to *stranger) (leave func(), left time.Duration, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	if leave, left, doubted := s.probe(to, time.Now()); doubted {
		return leave, left, nil
	}
	if leave, err = s.wait(ctx, to); err != nil {
		return nil, 0, err
	}
	if left = to.left(time.Now()); left > 0 { // it failed meanwhile
		leave()
		left = max(left, providers.MinRetryAfter)
	}
	return leave, left, nil
}

// probe lets one push go to a host that is not known to answer, and has the others come back:
// they would take up the places of those to hosts that do.
func (s *strangers) probe(to *stranger, now time.Time) (leave func(), left time.Duration, doubted bool) {
	to.mu.Lock()
	defer to.mu.Unlock()
	switch left := to.until.Sub(now); {
	case left > 0:
		return nil, max(left, providers.MinRetryAfter), true
	case to.answers:
		return nil, 0, false
	case to.probed:
		return nil, providers.MinRetryAfter, true
	}
	select {
	case s.probes <- struct{}{}:
	default:
		return nil, providers.MinRetryAfter, true
	}
	to.probed = true
	return func() {
		to.mu.Lock()
		defer to.mu.Unlock()
		to.probed = false
		<-s.probes
	}, 0, true
}

// wait waits for a place, first among the pushes to the host.
func (s *strangers) wait(ctx context.Context, to *stranger) (leave func(), err error) {
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
		s.failures, s.until, s.answers = 0, time.Time{}, true
	case now.Before(s.until): // it was on its way already
	default:
		s.failures++
		s.until = now.Add(backoff(s.failures))
		s.answers = s.answers && s.failures < strangerFailures
	}
}

// backoff is for how long a host is left alone that failed so often in a row.
func backoff(failures int) time.Duration {
	if failures < strangerFailures {
		return 0
	}
	return min(minBackoff<<min(failures-strangerFailures, 10), maxBackoff)
}

// leftAlone is the outcome of a push that is not made because its host is left alone for so
// long.
func leftAlone(host string, left time.Duration) providers.Outcome {
	return providers.Outcome{
		Kind: providers.Retry, Reason: providers.OriginBackoff, NotSent: true, Concerns: providers.ConcernsToken, RetryAfter: left,
		Err: fmt.Errorf("%s is left alone for a while: it has failed several times in a row, or one push is to show first whether it answers", host),
	}
}
