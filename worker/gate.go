package worker

import (
	"context"
	"time"

	"github.com/pushpace/pushpace/push"
)

// A gate bounds the pushes in flight to one provider of one app, so that one
// that is slow or stuck holds up its own notifications only.
type gate chan struct{}

// gateWait is how long a notification stands before a gate. One that finds no
// place goes back to the queue, and comes again after busyDelay.
const (
	gateWait  = 250 * time.Millisecond
	busyDelay = 2 * time.Second
)

// needed are the gates that the delivery has to pass, each once.
func needed(d *delivery) []gate {
	var needed []gate
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

// busy reports whether a gate of the delivery has no place now.
func (h *handler) busy(d *delivery) bool {
	for _, g := range d.gates {
		if len(g) == cap(g) {
			return true
		}
	}
	return false
}

// enter takes a place in each of the gates, or in none.
func enter(ctx context.Context, gates []gate) bool {
	for i, g := range gates {
		if !g.enter(ctx) {
			leave(gates[:i])
			return false
		}
	}
	return true
}

func (g gate) enter(ctx context.Context) bool {
	select {
	case g <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(gateWait)
	defer timer.Stop()
	select {
	case g <- struct{}{}:
		return true
	case <-timer.C:
		return false
	case <-ctx.Done():
		return false
	}
}

func leave(gates []gate) {
	for _, g := range gates {
		<-g
	}
}
