package worker

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/push"
)

// A gate bounds the pushes in flight to one provider of one app, so that one
// that is slow or stuck holds up its own notifications only.
type gate struct {
	places  chan int64 // of each place that is taken, since when it was wanted, in ns
	waiting atomic.Int64
	moved   atomic.Int64 // when a place was taken or left last, in ns
	parked  atomic.Int64 // until when the last of the jobs for it stays on the queue, in ns
	usual   atomic.Int64 // how long a place is taken, about, in ns; 0 before the first is left
}

func newGate(places int) *gate {
	g := &gate{places: make(chan int64, places)}
	g.moved.Store(time.Now().UnixNano())
	return g
}

// stuck is for how long the gate is full and nothing has moved; 0 when that is
// less than so long.
func (g *gate) stuck(now time.Time, least time.Duration) time.Duration {
	still := time.Duration(now.UnixNano() - g.moved.Load())
	if len(g.places) < cap(g.places) || still < least {
		return 0
	}
	return still
}

// So many notifications stand before a gate, for so long at most. What is more
// goes back to the queue, and comes again after busyDelay: the queue's times are
// whole seconds, and until then the provider is to have enough to do.
const (
	gateWaiting = 512
	gateWait    = 2 * time.Second
	busyDelay   = time.Second
	// Before a gate where nothing has moved for gateStill nobody stands, and who
	// goes back stays away for as long again, at most longestBusy.
	gateStill   = 500 * time.Millisecond
	longestBusy = 8 * time.Second
)

// needed are the gates that the delivery has to pass, each once.
func needed(d *delivery) []*gate {
	var needed []*gate
	for _, platform := range []push.Platform{push.APNs, push.FCM} {
		for i, r := range d.routes {
			if r != nil && r.platform == platform && d.outcomes[i].due() {
				needed = append(needed, r.gate)
				break
			}
		}
	}
	return needed
}

// busy is after how long the delivery may find a place before all its gates; 0
// when it may stand before them now.
func (d *delivery) busy(now time.Time) time.Duration {
	delay := time.Duration(0)
	for _, g := range d.gates {
		if still := g.stuck(now, gateStill); still > 0 || g.waiting.Load() >= gateWaiting {
			delay = max(delay, busyDelay, min(still, longestBusy))
		}
	}
	return delay
}

// enter takes a place in each of the gates, or in none.
func enter(ctx context.Context, gates []*gate) bool {
	for i, g := range gates {
		if !g.enter(ctx) {
			leave(gates[:i])
			return false
		}
	}
	return true
}

func (g *gate) enter(ctx context.Context) bool {
	now := time.Now().UnixNano()
	select {
	case g.places <- now:
		g.moved.Store(now)
		return true
	default:
	}
	g.waiting.Add(1)
	defer g.waiting.Add(-1)
	timer := time.NewTimer(gateWait)
	defer timer.Stop()
	select {
	case g.places <- now:
		g.moved.Store(time.Now().UnixNano())
		return true
	case <-timer.C:
		return false
	case <-ctx.Done():
		return false
	}
}

func leave(gates []*gate) {
	for _, g := range gates {
		g.leave(time.Now().UnixNano())
	}
}

// leave gives the place back that was taken first, whosever it is: what counts
// is how long they are taken on the whole.
func (g *gate) leave(now int64) {
	took := now - <-g.places
	g.moved.Store(now)
	const weight = 8
	usual := g.usual.Load()
	g.usual.Store(usual + (took-usual)/weight) // a race loses one of many
}
