package worker

import (
	"context"
	"errors"
	"sync"

	"github.com/pushpace/pushpace/providers"
)

// targetsAtOnce bounds how many targets of one notification are sent to at once.
const targetsAtOnce = 8

// send makes one attempt for every target that is still open.
func (h *handler) send(ctx context.Context, d *delivery) {
	if len(d.Targets) == 1 {
		if d.outcomes[0].open() {
			h.sendTo(ctx, d, 0)
		}
		return
	}
	var wg sync.WaitGroup
	places := make(chan struct{}, targetsAtOnce)
	for i := range d.Targets {
		if !d.outcomes[i].open() {
			continue
		}
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			h.sendTo(ctx, d, i)
		})
	}
	wg.Wait()
}

func (h *handler) sendTo(ctx context.Context, d *delivery, i int) {
	o := d.senders[i].Send(ctx, d.Notification, d.Targets[i])
	h.Observer.Attempted(d.App, d.Targets[i].Platform, o)
	d.outcomes[i] = tell(o)
}

// route finds the sender of each target. A target without one is rejected; route
// answers whether any is left.
func (h *handler) route(d *delivery) bool {
	app, known := h.Senders[d.App]
	d.senders = make([]providers.Sender, len(d.Targets))
	some := false
	for i, target := range d.Targets {
		switch sender, ok := app[target.Platform]; {
		case ok:
			d.senders[i], some = sender, true
		case known:
			d.outcomes[i] = tell(providers.Outcome{Kind: providers.Rejected, Reason: providers.NoProvider, Concerns: providers.ConcernsMessage, Err: errNoProvider})
		default:
			d.outcomes[i] = tell(providers.Outcome{Kind: providers.Rejected, Reason: providers.UnknownApp, Concerns: providers.ConcernsMessage, Err: errUnknownApp})
		}
	}
	d.gates = h.needed(d)
	return some
}

var (
	errUnknownApp = errors.New("the configuration has no such app")
	errNoProvider = errors.New("the app has no provider for the target's platform")
)
