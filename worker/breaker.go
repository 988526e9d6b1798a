package worker

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
	cb *gobreaker.TwoStepCircuitBreaker[struct{}]
	// until is when an open breaker lets the next probe through, in Unix ns.
	until  atomic.Int64
	forced atomic.Bool // it opens for a pause, whatever the counts
	told   bool        // that it has opened; under cb's lock
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
		MaxRequests: 1, Interval: breakerWindow, BucketPeriod: breakerBucket, Timeout: openFor,
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
					b.told = true
					changed(true)
				}
			case to == gobreaker.StateClosed && b.told:
				b.told = false
				changed(false)
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
	case o.Kind == 0, o.Reason == providers.Cancelled:
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

// left is how long the breaker lets nothing through; 0 when it does.
func (b *breaker) left(now time.Time) time.Duration {
	switch b.cb.State() {
	case gobreaker.StateOpen:
		return max(time.Unix(0, b.until.Load()).Sub(now), time.Millisecond)
	case gobreaker.StateHalfOpen:
		if c := b.cb.Counts(); c.Requests > c.TotalExclusions {
			return probeWait
		}
	}
	return 0
}

// allow asks for one push. When it may go, done has to be called with its
// outcome.
func (b *breaker) allow() (done func(providers.Outcome), ok bool) {
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
