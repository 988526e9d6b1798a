package worker

import "time"

// Hasten shortens what tests have no time for: how long a breaker stays open,
// the first pause for misconfiguration, and the steps of a webhook's delivery.
func (o *Options) Hasten(open, paused, webhook time.Duration) {
	o.times = times{open: open, paused: paused, calm: open, webhook: webhookTimes{poll: webhook, again: webhook, give: 10 * webhook, claim: 20 * webhook}}
}
