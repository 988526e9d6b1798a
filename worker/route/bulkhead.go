package route

import (
	"context"
	"sync/atomic"
	"time"
)

// A Bulkhead bounds the pushes in flight to one provider of one app, so that one
// that is slow or stalled holds up its own notifications only.
type Bulkhead struct {
	places   chan int64 // of each place that is taken, since when it was wanted, in ns
	waiting  atomic.Int64
	changed  atomic.Int64 // when a place was taken or left last, in ns
	skipped  atomic.Int64 // until when the last of the jobs for it stays on the queue, in ns
	meanHold atomic.Int64 // how long a place is taken, about, in ns; 0 before the first is left
}

func newBulkhead(places int) *Bulkhead {
	b := &Bulkhead{places: make(chan int64, places)}
	b.changed.Store(time.Now().UnixNano())
	return b
}

// stalledFor is for how long the gate is full and nothing has changed; 0 when that is
// less than so long.
func (b *Bulkhead) stalledFor(now time.Time, least time.Duration) time.Duration {
	idle := time.Duration(now.UnixNano() - b.changed.Load())
	if len(b.places) < cap(b.places) || idle < least {
		return 0
	}
	return idle
}

const (
	// MaxWaiting is how many notifications wait for a place in a bulkhead, and maxWait
	// for how long. What is more goes back to the queue, and comes again after
	// BusyDelay: the queue's times are whole seconds, and until then the provider is to
	// have enough to do.
	MaxWaiting = 512
	maxWait    = 2 * time.Second
	BusyDelay  = time.Second
	// For one where nothing has changed for maxIdle nothing waits, and what goes back
	// stays away for as long again, at most longestBusy.
	maxIdle     = 500 * time.Millisecond
	longestBusy = 8 * time.Second
)

// Busy is after how long there may be a place in each of the bulkheads; 0 when it may
// be waited for now.
func Busy(bulkheads []*Bulkhead, now time.Time) time.Duration {
	delay := time.Duration(0)
	for _, b := range bulkheads {
		if idle := b.stalledFor(now, maxIdle); idle > 0 || b.waiting.Load() >= MaxWaiting {
			delay = max(delay, BusyDelay, min(idle, longestBusy))
		}
	}
	return delay
}

// Acquire takes a place in each of the bulkheads, or in none.
func Acquire(ctx context.Context, bulkheads []*Bulkhead) bool {
	for i, b := range bulkheads {
		if !b.acquire(ctx) {
			Release(bulkheads[:i])
			return false
		}
	}
	return true
}

func (b *Bulkhead) acquire(ctx context.Context) bool {
	now := time.Now().UnixNano()
	select {
	case b.places <- now:
		b.changed.Store(now)
		return true
	default:
	}
	b.waiting.Add(1)
	defer b.waiting.Add(-1)
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case b.places <- now:
		b.changed.Store(time.Now().UnixNano())
		return true
	case <-timer.C:
		return false
	case <-ctx.Done():
		return false
	}
}

// Release gives a place in each of the bulkheads back.
func Release(bulkheads []*Bulkhead) {
	for _, b := range bulkheads {
		b.release(time.Now().UnixNano())
	}
}

// release gives the place back that was taken first, whosever it is: what counts
// is how long they are taken on the whole.
func (b *Bulkhead) release(now int64) {
	took := now - <-b.places
	b.changed.Store(now)
	const weight = 8
	meanHold := b.meanHold.Load()
	b.meanHold.Store(meanHold + (took-meanHold)/weight) // a race loses one of many
}
