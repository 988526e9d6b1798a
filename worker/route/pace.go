package route

import (
	"sync"
	"sync/atomic"
	"time"
)

// A pace is how fast what a route has held leaves again. It begins gently, since the
// provider has just come up. With each step it doubles when the answers were good, and
// halves when they were not, or the route is closed. It begins again when the next ones
// are held after all have left. The zero value has begun.
//
// Everything else of the route, which was not held, leaves when it comes.
type pace struct {
	good, bad atomic.Int64 // answers in this step

	mu    sync.Mutex
	rate  int       // a second; 0 for paceLeast
	step  time.Time // when this step began; zero before the first
	given time.Time // what may have left by then was told
}

const (
	paceLeast = 100
	// paceMost is more than any process sends: from there on only what it has in hand
	// bounds what it has return.
	paceMost = paceLeast << 10
	paceStep = 200 * time.Millisecond
	// badShare is of how many answers one may be bad.
	badShare = 10
)

// note takes in an answer of the provider.
func (p *pace) note(good bool) {
	if good {
		p.good.Add(1)
	} else {
		p.bad.Add(1)
	}
}

// begin has the pace begin again.
func (p *pace) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate, p.step = 0, time.Time{}
}

// next returns how many may leave since the last call, of a route that is open or not:
// of one that is closed one at the begin of each step, to see.
func (p *pace) next(now time.Time, open bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	begins := now.Sub(p.step) >= paceStep
	if begins {
		p.adapt(now, open)
	}
	if !open {
		p.given = now
		if begins {
			return 1
		}
		return 0
	}
	since := min(now.Sub(p.given), paceStep)
	n := int(since * time.Duration(p.rate) / time.Second)
	if n > 0 || since == paceStep {
		p.given = now
	}
	return n
}

// adapt ends a step and begins the next one.
func (p *pace) adapt(now time.Time, open bool) {
	good, bad := p.good.Swap(0), p.bad.Swap(0)
	switch {
	case p.step.IsZero():
		p.rate, p.given = paceLeast, now
	case !open, bad*badShare > good+bad:
		p.rate = max(p.rate/2, paceLeast)
	case good > 0:
		p.rate = min(p.rate*2, paceMost)
	}
	p.step = now
}

// Returns has those return that the route has held, from now on, at a pace that begins.
func (r *Route) Returns() { r.pace.begin() }

// Returning returns how many of those that the route has held may leave since the last
// call, and whether that is one to see whether the provider works: not one of those who
// are first, since it may fail, and the same would be the next one.
func (r *Route) Returning(now time.Time) (n int, toSee bool) {
	state, left := r.breaker.state(now)
	left = max(left, r.pauseLeft(now))
	toSee = state != BreakerClosed
	n = r.pace.next(now, !toSee && left == 0)
	if _, waiting := r.Bulkhead.load(); left > 0 || waiting >= maxWaiting/2 {
		return 0, toSee // they would wait in the process
	}
	if r.Quota != nil {
		n = min(n, r.Quota.Room(QuotaWait))
	}
	return n, toSee
}
