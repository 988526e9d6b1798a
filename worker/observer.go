package worker

import (
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

// An Observer is told what happens, for metrics. Its methods are called from
// many goroutines and must return at once.
type Observer interface {
	// Checked: the limiter was asked.
	Checked()
	// Deferred: a notification was put off.
	Deferred(throttle.Decision)
	// Paced: a notification that had to wait goes out, that much after its slot.
	Paced(lateness time.Duration)
	// Attempted: one target was sent to.
	Attempted(app string, platform push.Platform, o providers.Outcome)
	// Breaker: an app's provider is in trouble and its notifications wait on the
	// queue, or no longer.
	Breaker(app string, platform push.Platform, open bool)
	// Paused: this worker has had all of them pause an app's provider.
	Paused(app string, platform push.Platform, reason providers.Reason)
	// Ended: a notification has ended, or, as push.Malformed, a job was set aside.
	Ended(push.State)
}

// Nobody is an Observer that does nothing. Embed it to observe a part.
type Nobody struct{}

func (Nobody) Checked()                                           {}
func (Nobody) Deferred(throttle.Decision)                         {}
func (Nobody) Paced(time.Duration)                                {}
func (Nobody) Attempted(string, push.Platform, providers.Outcome) {}
func (Nobody) Breaker(string, push.Platform, bool)                {}
func (Nobody) Paused(string, push.Platform, providers.Reason)     {}
func (Nobody) Ended(push.State)                                   {}
