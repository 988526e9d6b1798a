package route

import (
	"sync"
	"sync/atomic"
	"time"
)

// A breaker stands before one provider of one app. It opens when the answers show trouble,
// or for a pause. After a while it lets one push through at a time, a probe, and closes when
// the provider takes it.
type breaker struct {
	openFor time.Duration
	changed func(open bool) // trouble has opened it, and it has closed then
	closed  func()          // a probe has closed it
	opens   func()          // it opens

	tripped atomic.Bool
	mu      sync.Mutex
	until   time.Time // when the next probe may go
	probing bool      // a probe is under way
	seen    bool      // changed knows that it is open
}

// probeWait is the delay of a notification that finds a probe under way.
const probeWait = time.Second

// isOpen reports whether pushes wait for a probe.
func (b *breaker) isOpen() bool { return b.tripped.Load() }

// state is the breaker's, and how long it lets nothing through; 0 when it does.
func (b *breaker) state(now time.Time) (BreakerState, time.Duration) {
	if !b.tripped.Load() {
		return BreakerClosed, 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if left := b.until.Sub(now); left > 0 {
		return BreakerOpen, left
	}
	if b.probing {
		return BreakerHalfOpen, probeWait
	}
	return BreakerHalfOpen, 0
}

// left is how long the breaker lets nothing through; 0 when it does.
func (b *breaker) left(now time.Time) time.Duration {
	_, left := b.state(now)
	return left
}

// since is when the next probe may go, or might have gone.
func (b *breaker) since() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.until
}

// allow asks for one push. If it may go, the caller calls done with its lesson.
func (b *breaker) allow(now time.Time) (done func(Lesson), ok bool) {
	if !b.tripped.Load() {
		return func(Lesson) {}, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.probing || now.Before(b.until) {
		return nil, false
	}
	b.probing = true
	return b.probed, true
}

// probed ends a probe.
func (b *breaker) probed(l Lesson) {
	b.mu.Lock()
	b.probing = false
	closes, seen := l.shows == works && b.tripped.Load(), b.seen
	switch {
	case closes:
		b.seen = false
		b.tripped.Store(false)
	case l.shows == fails:
		b.until = time.Now().Add(b.openFor)
	}
	b.mu.Unlock()
	if closes {
		b.closed()
		if seen {
			b.changed(false)
		}
	}
}

// trip opens the breaker, for trouble or for a pause.
func (b *breaker) trip(trouble bool) {
	b.mu.Lock()
	if now := time.Now(); !b.probing && !b.until.After(now) {
		b.until = now.Add(b.openFor)
	}
	opens := !b.tripped.Swap(true)
	news := trouble && !b.seen
	b.seen = b.seen || trouble
	b.mu.Unlock()
	if opens {
		b.opens()
	}
	if news {
		b.changed(true)
	}
}

// probe lets the next push through an open breaker at once.
func (b *breaker) probe() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = time.Time{}
}
