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
	places  chan struct{}
	waiting atomic.Int64
}

func newGate(places int) *gate { return &gate{places: make(chan struct{}, places)} }

// So many notifications stand before a gate, for so long at most. What is more
// goes back to the queue, and comes again after busyDelay: the queue's times are
// whole seconds, and until then the provider is to have enough to do.
const (
	gateWaiting = 1024
	gateWait    = 2 * time.Second
	busyDelay   = time.Second
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

// busy reports whether nothing more can stand before a gate of the delivery.
func (d *delivery) busy() bool {
	for _, g := range d.gates {
		if g.waiting.Load() >= gateWaiting {
			return true
		}
	}
	return false
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
	select {
	case g.places <- struct{}{}:
		return true
	default:
	}
	g.waiting.Add(1)
	defer g.waiting.Add(-1)
	timer := time.NewTimer(gateWait)
	defer timer.Stop()
	select {
	case g.places <- struct{}{}:
		return true
	case <-timer.C:
		return false
	case <-ctx.Done():
		return false
	}
}

func leave(gates []*gate) {
	for _, g := range gates {
		<-g.places
	}
}
