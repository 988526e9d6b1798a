package worker

import (
	"time"

	"github.com/pushpace/pushpace/worker/route"
)

// Hasten shortens what tests have no time for: how long a breaker stays open,
// the first pause for misconfiguration, and the steps of a webhook's delivery.
func (o *Options) Hasten(open, paused, webhook time.Duration) {
	o.times = times{route: route.Times{Open: open, Paused: paused, Calm: open}, webhook: webhookTimes{poll: webhook, again: webhook, give: 10 * webhook, claim: 20 * webhook}}
}

// On has the worker run on a host of that name.
func (o *Options) On(host string) { o.host = host }
