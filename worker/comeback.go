package worker

import (
	"errors"
	"time"

	"github.com/hibiken/asynq"
)

// A comeback is the error by which a job returns to asynq's queue. This file
// alone knows what asynq makes of it.
type comeback struct {
	why   string
	after time.Duration
	// failed counts on asynq's side, which tells the next visit to look at the
	// notification's record. A deferral is no failure: it spends nothing.
	failed bool
}

func (c *comeback) Error() string { return c.why + backIn + c.after.String() }

// Why a job returns, as asynq keeps it: Causes are read from it.
const (
	backIn       = ", back in "
	whyDeferred  = "deferred"
	whyAgain     = "to be sent again"
	whyBusy      = "the provider is busy"
	whyPaused    = "the provider is paused"
	whyUnwritten = "Redis refuses to write"
	whyTooLate   = "the machine is too busy to send on time"
	whyUnchecked = "the user's limits cannot be checked"
)

// earliness is how much before its slot a deferred job is due on the queue:
// asynq looks for delayed jobs only so often, and an idle lane for those that
// are due. The rest is waited for in the process. asynq floors the instant to
// whole seconds on top of it.
const earliness = pollDelayed + pollFresh + 50*time.Millisecond

// putOff is a deferral until the time left is over.
func putOff(left time.Duration) *comeback {
	return &comeback{why: whyDeferred, after: max(0, left-earliness)}
}

// again is a new attempt after the delay.
func again(delay time.Duration) *comeback {
	return &comeback{why: whyAgain, after: delay, failed: true}
}

// busy is a new visit because a provider has as many pushes in flight as it may.
func busy(delay time.Duration) *comeback {
	return &comeback{why: whyBusy, after: delay}
}

// paused is a new visit because no provider that is left may be sent to now.
func paused(left time.Duration) *comeback {
	return &comeback{why: whyPaused, after: left}
}

// unwritten is a new visit because what is sent now could not be recorded.
func unwritten(delay time.Duration) *comeback {
	return &comeback{why: whyUnwritten, after: delay}
}

// later is a new visit because something of ours is away.
func later(cause error) *comeback {
	return &comeback{why: cause.Error(), after: 2 * time.Second}
}

// unsettled is a new visit, after that many others, because what was sent is not
// recorded. It counts on asynq's side: the next visit looks at the record before
// anything is sent.
func unsettled(cause error, visits int) *comeback {
	return &comeback{why: "not recorded: " + cause.Error(), after: max(2*time.Second, backoffAfter(visits)), failed: true}
}

func retryDelay(_ int, err error, _ *asynq.Task) time.Duration {
	var c *comeback
	if errors.As(err, &c) {
		return c.after
	}
	return 2 * time.Second // a crashed worker's job, or a panic of ours
}

func isFailure(err error) bool {
	var c *comeback
	return !errors.As(err, &c) || c.failed
}
