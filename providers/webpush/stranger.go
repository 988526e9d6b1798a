package webpush

import (
	"context"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/pushpace/pushpace/providers"
)

// Bounds for a host that is not a known service.
const (
	// maxStrangers bounds the hosts remembered.
	maxStrangers = 1024
	// strangerInFlight bounds the pushes in flight to one host that is known to answer. Any other
	// host gets a single push at a time.
	strangerInFlight = 8
	// maxProbes bounds the hosts not known to answer that have a push in flight: a small part of
	// maxInFlight, so that other hosts are not delayed.
	maxProbes = maxInFlight / 8
	// strangerFailures is the number of failures in a row that starts a backoff.
	strangerFailures = 3
	// The first backoff takes minBackoff. Each further failure doubles it, up to maxBackoff.
	minBackoff = 5 * time.Second
	maxBackoff = 5 * time.Minute
)

// strangers are the hosts that are not known services. A failing host does not delay other hosts.
type strangers struct {
	// permits bounds the pushes in flight to all hosts known to answer, probes the pushes to all
	// other hosts.
	permits chan struct{}
	probes  chan struct{}
	adding  sync.Mutex
	byHost  *lru.Cache[string, *stranger]
}

// A stranger is the state of one unknown host.
type stranger struct {
	permits chan struct{}

	mu       sync.Mutex
	failures int // in a row
	until    time.Time
	// isAnswering is true if the host has answered, and has not reached strangerFailures since.
	// Otherwise the host is probed; hasProbe is true while a probe is in flight.
	isAnswering, hasProbe bool
}

func newStrangers() *strangers {
	byHost, _ := lru.New[string, *stranger](maxStrangers) // only a size of 0 fails
	return &strangers{permits: make(chan struct{}, maxInFlight-maxProbes), probes: make(chan struct{}, maxProbes), byHost: byHost}
}

// get returns the state of a host.
func (s *strangers) get(host string) *stranger {
	s.adding.Lock()
	defer s.adding.Unlock()
	if kept, ok := s.byHost.Get(host); ok {
		return kept
	}
	made := &stranger{permits: make(chan struct{}, strangerInFlight)}
	s.byHost.Add(host, made)
	return made
}

// enter admits a push to a host, or returns how long the backoff lasts. A push to a host known to
// answer waits for a permit of the host, then for a permit that all hosts share. If err is nil and
// left is 0, the caller must call leave after the push.
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
	if left = to.backoffLeft(time.Now()); left > 0 { // the host failed meanwhile
		leave()
		left = max(left, providers.MinRetryAfter)
	}
	return leave, left, nil
}

// probe admits one push to a host not known to answer, and returns a delay for other pushes to the
// host, because waiting pushes would use permits of hosts that do answer.
func (s *strangers) probe(to *stranger, now time.Time) (leave func(), left time.Duration, doubted bool) {
	to.mu.Lock()
	defer to.mu.Unlock()
	switch left := to.until.Sub(now); {
	case left > 0:
		return nil, max(left, providers.MinRetryAfter), true
	case to.isAnswering:
		return nil, 0, false
	case to.hasProbe:
		return nil, providers.MinRetryAfter, true
	}
	select {
	case s.probes <- struct{}{}:
	default:
		return nil, providers.MinRetryAfter, true
	}
	to.hasProbe = true
	return func() {
		to.mu.Lock()
		defer to.mu.Unlock()
		to.hasProbe = false
		<-s.probes
	}, 0, true
}

// wait waits for a permit of the host, then for a permit that all hosts share.
func (s *strangers) wait(ctx context.Context, to *stranger) (leave func(), err error) {
	for i, permits := range []chan struct{}{to.permits, s.permits} {
		select {
		case permits <- struct{}{}:
		case <-ctx.Done():
			if i > 0 {
				<-to.permits
			}
			return nil, ctx.Err()
		}
	}
	return func() { <-s.permits; <-to.permits }, nil
}

// backoffLeft returns the rest of the host's backoff, 0 without one.
func (s *stranger) backoffLeft(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.until.Sub(now))
}

// record counts whether a push failed.
func (s *stranger) record(failed bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !failed:
		s.failures, s.until, s.isAnswering = 0, time.Time{}, true
	case now.Before(s.until): // the push was sent before the backoff
	default:
		s.failures++
		s.until = now.Add(backoff(s.failures))
		s.isAnswering = s.isAnswering && s.failures < strangerFailures
	}
}

// backoff returns the delay after that many failures in a row.
func backoff(failures int) time.Duration {
	if failures < strangerFailures {
		return 0
	}
	return min(minBackoff<<min(failures-strangerFailures, 10), maxBackoff)
}

// backoffOutcome returns the outcome of a push that is not sent because of its host's backoff.
func backoffOutcome(host string, left time.Duration) providers.Outcome {
	return providers.Outcome{
		Kind: providers.Retry, Reason: providers.OriginBackoff, NotSent: true, Concerns: providers.ConcernsToken, RetryAfter: left,
		Err: fmt.Errorf("%s gets no push for now: it failed several times in a row, or has not answered a first push yet", host),
	}
}
