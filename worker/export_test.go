package worker

import (
	"context"
	"slices"
	"time"
)

// Hasten shortens what tests have no time for: how long a breaker stays open,
// the first pause for misconfiguration, and the steps of a webhook's delivery.
func (o *Options) Hasten(open, paused, webhook time.Duration) {
	o.times = times{open: open, paused: paused, calm: open, webhook: webhookTimes{poll: webhook, again: webhook, give: 10 * webhook, claim: 20 * webhook}}
}

// On has the worker run on a host of that name.
func (o *Options) On(host string) { o.host = host }

// List answers the pauses that last and are borne out.
func (p *Pauses) List(ctx context.Context) ([]Pause, error) {
	all, err := p.read(ctx)
	return slices.DeleteFunc(all.pauses, func(p Pause) bool { return p.claim != "" }), err
}
