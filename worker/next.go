package worker

import (
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// maxAsks is how often the throttle is asked about a job in one visit at most. One or two
// asks are the ordinary case; one that comes late is asked about once or twice more. A job
// that is late four times is on a machine that is too busy: it goes back to the queue.
const maxAsks = 8

// renewalAsks is what a renewal takes of them at most: see step.gives.
const renewalAsks = 2

// tooLate is how much after its admission one that has not left yet is asked about again.
const tooLate = 25 * time.Millisecond

// A step is what admission does next with a delivery.
type step struct {
	do    action
	after time.Duration // it waits so long first
	// Of ask: whether the delivery was let through before, which is a renewal; and whether
	// it gives that back first, since it may not go now.
	renews bool
	gives  bool
	// inside says that the delivery keeps the places that it has before its providers.
	inside bool
	late   time.Duration // of depart: how long after its admission it leaves
}

type action int

const (
	ask    action = iota // ask the throttle
	enter                // wait for a place before each provider
	depart               // it is admitted
	putOff               // the job goes back to the queue, as the decision says
	giveUp               // the job goes back to the queue: it comes too late again and again
)

// A visit is what the next step depends on besides the throttle's answer.
type visit struct {
	asks int           // made in it
	most time.Duration // that is waited for in the process
	full bool          // nothing more is to wait there
}

// first is the first step of a delivery with that slot; zero when it has none, or that is
// not known. It asks at the slot.
func (v visit) first(slot, now time.Time) step {
	if v.asks >= maxAsks {
		return step{do: giveUp}
	}
	after := max(0, slot.Sub(now))
	if after > v.most || v.full {
		after = 0
	}
	return step{do: ask, after: after}
}

// renew asks again about a delivery that has its places and comes too late for its
// admission: at its own instant that was right, now it may not be.
func (v visit) renew() step {
	if v.asks > maxAsks-renewalAsks {
		return step{do: giveUp}
	}
	return step{do: ask, renews: true, inside: true}
}

// answered is what follows the throttle's answer to an ask.
func (v visit) answered(asked step, decision *throttle.Decision) step {
	switch {
	case decision.Status == throttle.Granted && asked.inside:
		return step{do: depart, inside: true}
	case decision.Status == throttle.Granted:
		return step{do: enter}
	case decision.Status != throttle.Deferred:
		return step{do: putOff}
	case asked.renews && !asked.gives:
		return step{do: ask, renews: true, gives: true, inside: asked.inside}
	case decision.Slotless, v.full, decision.Left > v.most, v.asks >= maxAsks:
		return step{do: putOff}
	}
	return step{do: ask, after: decision.Left}
}

// entered is what follows when the delivery has its places, so long after an admission that
// was asked for by those scopes. One that is late, or whose limits have changed since, is
// asked about again.
func (v visit) entered(late time.Duration, asked, inForce []throttle.Scope) step {
	if len(inForce) == 0 || late < tooLate && sameScopes(inForce, asked) {
		return step{do: depart, inside: true, late: late}
	}
	return v.renew()
}

// sameScopes reports whether the limits are as they were: not whether they say the same. By
// those that were in force for a moment between, others were let through.
func sameScopes(a, b []throttle.Scope) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
