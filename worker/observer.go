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
	// Ended: a notification has ended, or, as push.Malformed, a job was set aside.
	Ended(push.State)
}

type nobody struct{}

func (nobody) Checked()                                           {}
func (nobody) Deferred(throttle.Decision)                         {}
func (nobody) Paced(time.Duration)                                {}
func (nobody) Attempted(string, push.Platform, providers.Outcome) {}
func (nobody) Ended(push.State)                                   {}
