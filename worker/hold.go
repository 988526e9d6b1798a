package worker

import (
	"context"
	"sync"
	"time"

	"github.com/pushpace/pushpace/worker/queue"
)

// hold marks the targets whose route is closed, by trouble or by an operator,
// and answers whether all that are still open wait for theirs. The others' gates
// are those to pass.
func (h *handler) hold(d *delivery) bool {
	now := time.Now()
	held, free := 0, 0
	for i, r := range d.routes {
		if r == nil || !d.outcomes[i].open() {
			continue
		}
		o := &d.outcomes[i]
		o.hold = h.heldBy(d, i, now)
		if o.held = o.hold != nil || r.left(now) > 0; o.held {
			held++
		} else {
			free++
		}
	}
	d.gates = needed(d)
	return held > 0 && free == 0
}

// standBack returns the job to the queue until a route may be open. It spends
// neither an attempt nor a slot. Those who wait behind the slot are not woken yet:
// the next one is likely to stand back too.
func (h *handler) standBack(ctx context.Context, d *delivery) error {
	h.remember(ctx, d, h.freeSlot(ctx, d, d.taken()))
	return queue.Snooze(whyPaused, h.heldFor(d))
}

// heldFor is how long the delivery waits for the first of its closed routes.
func (h *handler) heldFor(d *delivery) time.Duration {
	now := time.Now()
	var first *route
	var least time.Duration
	byOperator := false
	for i, r := range d.routes {
		o := &d.outcomes[i]
		if !o.held {
			continue
		}
		left := min(r.left(now), longestHold)
		if r.pausing(now).local {
			left = min(left, aloneHold)
		}
		if o.hold != nil {
			left = max(left, min(o.hold.left(now), longestOperatorHold))
		}
		if first == nil || left < least {
			first, least, byOperator = r, left, o.hold != nil
		}
	}
	switch {
	case first == nil:
		return 0
	case !byOperator:
		return first.queue.next(d.queue, now, least)
	}
	wait := h.turns.next(d.queue, now, least)
	if !d.ExpiresAt.IsZero() { // the queue's times are whole seconds
		wait = min(wait, max(0, d.ExpiresAt.Sub(now))+time.Second)
	}
	return wait
}

const (
	// longestHold is after how long a held notification looks again whether its
	// route is still closed.
	longestHold = 30 * time.Second
	// aloneHold is the same for a pause that this worker alone keeps to: another
	// one may send it.
	aloneHold = 2 * time.Second
	// longestOperatorHold is the same for an operator's pause, whose end wakes
	// what it holds: it may last for days, and hold much.
	longestOperatorHold = 5 * time.Minute
	// comebackGap lies between two held notifications of a route, so that the more
	// there are, the less often each of them looks, and what is not held has the
	// queue to itself. It is also how fast they are sent when the route opens:
	// 1,000 a second from each process, which spares a provider that comes up.
	comebackGap = time.Millisecond
)

// comebacks give held notifications their turns, by queue. The
// zero value is ready to use.
type comebacks struct {
	mu   sync.Mutex
	last map[string]time.Time
	due  map[int64]int // how many come back within each dueStep since 1970
}

const dueStep = 100 * time.Millisecond

// next answers after how long a notification of that queue comes back, when it
// is held for so long.
func (c *comebacks) next(queue string, now time.Time, left time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last, c.due = make(map[string]time.Time), make(map[int64]int)
	}
	at := now.Add(left)
	if next := c.last[queue].Add(comebackGap); next.After(at) {
		at = next
	}
	c.last[queue] = at
	c.due[at.UnixNano()/int64(dueStep)]++
	return at.Sub(now)
}

// waiting is about how many are yet to come back. Any worker may take them up
// then, and counts them if they are still held.
func (c *comebacks) waiting(now time.Time) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for step, some := range c.due {
		if step < now.UnixNano()/int64(dueStep) {
			delete(c.due, step)
			continue
		}
		n += some
	}
	return n
}
