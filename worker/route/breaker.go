package route

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/pushpace/pushpace/providers"
)

// A breaker stands before one provider of one app. It opens when the provider
// is in trouble, and after a while lets one push through to see.
type breaker struct {
	// cb leaves its open state at once: how long it is open is until's to say.
	cb *gobreaker.TwoStepCircuitBreaker[struct{}]
	// until is when an open breaker lets the next probe through, in Unix ns; 0 when
	// it may now.
	until    atomic.Int64
	forced   atomic.Bool // it opens for a pause, whatever the counts
	observed bool        // that it has opened; under cb's lock
}

const (
	// breakerWindow is how far back a breaker looks: longer than any push takes.
	breakerWindow = 30 * time.Second
	breakerBucket = 5 * time.Second
	// probeWait is how soon a notification comes back while a probe is under way.
	probeWait = time.Second
)

// newBreaker returns a closed breaker that stays open for so long. changed is
// called when trouble opens it after it was closed, and when it closes then; it
// must not use the breaker.
func newBreaker(openFor time.Duration, changed func(open bool)) *breaker {
	b := new(breaker)
	b.cb = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: 1, Interval: breakerWindow, BucketPeriod: breakerBucket, Timeout: 1,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return b.forced.Load() || inTrouble(c.ConsecutiveFailures, c.TotalFailures, c.TotalSuccesses)
		},
		IsSuccessful: func(err error) bool { return err == nil },
		IsExcluded:   func(err error) bool { return errors.Is(err, errSaysNothing) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch {
			case to == gobreaker.StateOpen:
				b.until.Store(time.Now().Add(openFor).UnixNano())
				if from == gobreaker.StateClosed && !b.forced.Load() {
					b.observed = true
					changed(true)
				}
			case to == gobreaker.StateClosed:
				b.until.Store(0)
				if b.observed {
					b.observed = false
					changed(false)
				}
			}
		},
	})
	return b
}

// inTrouble decides whether the failures of the window open the breaker: ten in
// a row, or five that are half of all. Fewer say little, and each of them has
// its notification back off by itself.
func inTrouble(consecutive, failures, successes uint32) bool {
	return consecutive >= 10 || failures >= 5 && failures >= successes
}

var (
	errTrouble     = errors.New("the provider is in trouble")
	errSaysNothing = errors.New("the outcome says nothing of the provider")
)

// symptom is what an outcome says of the provider: nil that it works, even if
// this one notification or token does not.
func symptom(o providers.Outcome) error {
	switch {
	case o.Kind == 0, o.Reason == providers.Cancelled, o.Reason == providers.TooLate, o.Reason == providers.OriginBackoff:
		return errSaysNothing
	case o.Kind == providers.Misconfigured, o.Kind == providers.Retry && concernsAll(o):
		return errTrouble
	}
	return nil
}

// concernsAll reports whether the outcome's trouble is every notification's that
// this app sends by this provider.
func concernsAll(o providers.Outcome) bool {
	switch o.Concerns {
	case providers.ConcernsCredential, providers.ConcernsApp, providers.ConcernsProvider:
		return true
	}
	return false
}

// state is the breaker's, and how long it lets nothing through; 0 when it does.
func (b *breaker) state(now time.Time) (BreakerState, time.Duration) {
	if b.cb.State() == gobreaker.StateClosed {
		return BreakerClosed, 0
	}
	if left := time.Unix(0, b.until.Load()).Sub(now); left > 0 {
		return BreakerOpen, left
	}
	if c := b.cb.Counts(); c.Requests > c.TotalExclusions {
		return BreakerHalfOpen, probeWait
	}
	return BreakerHalfOpen, 0
}

// left is how long the breaker lets nothing through; 0 when it does.
func (b *breaker) left(now time.Time) time.Duration {
	_, left := b.state(now)
	return left
}

// allow asks for one push. When it may go, done has to be called with its
// outcome.
func (b *breaker) allow() (done func(providers.Outcome), ok bool) {
	if until := b.until.Load(); until > 0 && time.Now().UnixNano() < until {
		return nil, false
	}
	report, err := b.cb.Allow()
	if err != nil {
		return nil, false
	}
	return func(o providers.Outcome) { report(symptom(o)) }, true
}

// trip opens the breaker, so that what comes after a pause is probed first.
func (b *breaker) trip() {
	b.forced.Store(true)
	defer b.forced.Store(false)
	if report, err := b.cb.Allow(); err == nil {
		report(errTrouble)
	}
}

// probe has an open breaker let the next push through, to see.
func (b *breaker) probe() { b.until.Store(0) }
