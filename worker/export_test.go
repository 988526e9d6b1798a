package worker

import (
	"time"

	"github.com/pushpace/pushpace/worker/route"
	"github.com/pushpace/pushpace/worker/webhook"
)

// Hasten sets how long a route stays closed, the first pause for misconfiguration, and the steps of a
// webhook's delivery.
func (o *Options) Hasten(open, paused, hook time.Duration) {
	o.times = times{route: route.Times{Open: open, Paused: paused, Calm: open}, webhook: webhook.Times{Poll: hook, FirstRetry: hook, GiveUp: 10 * hook, Claim: 20 * hook}}
}

// GiveUp sets how long the worker retries a failed write.
func (o *Options) GiveUp(after time.Duration) { o.times.record = after }

// WaitForTurns sets how long a job waits for its turn in its line. Tests of the order need more than a
// stalled machine takes.
func (o *Options) WaitForTurns(timeout time.Duration) { o.times.turn = timeout }
