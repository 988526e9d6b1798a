package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// hold marks the targets whose route is closed, and answers whether all that
// are still open wait for theirs. The others' gates are those to pass.
func (h *handler) hold(d *delivery) bool {
	now := time.Now()
	held, free := 0, 0
	for i, r := range d.routes {
		if r == nil || !d.outcomes[i].open() {
			continue
		}
		if d.outcomes[i].held = r.left(now) > 0; d.outcomes[i].held {
			held++
		} else {
			free++
		}
	}
	d.gates = needed(d)
	return held > 0 && free == 0
}

// standBack returns the job to the queue until a route may be open. It spends
// neither an attempt nor a slot. Those who wait behind the slot are not woken:
// the next one is likely to stand back too.
func (h *handler) standBack(ctx context.Context, d *delivery) error {
	if request := h.request(d); len(request.Scopes) > 0 && !d.taken() {
		if _, err := h.Limiter.Cancel(ctx, request); err != nil {
			h.Log.LogAttrs(ctx, slog.LevelWarn, "slot not given back", slog.String("id", d.ID), slog.Any("error", err))
		}
	}
	return paused(d.heldFor())
}

// heldFor is how long the delivery waits for the first of its closed routes.
func (d *delivery) heldFor() time.Duration {
	now := time.Now()
	var first *route
	var least time.Duration
	for i, r := range d.routes {
		if !d.outcomes[i].held {
			continue
		}
		if left := r.left(now); first == nil || left < least {
			first, least = r, left
		}
	}
	if first == nil {
		return 0
	}
	return first.queue.next(d.queue, now, least)
}

const (
	// longestHold is after how long a held notification looks again whether its
	// route is still closed.
	longestHold = 30 * time.Second
	// comebackGap lies between two held notifications of a route, so that the more
	// there are, the less often each of them looks, and what is not held has the
	// queue to itself. It is also how fast they are sent when the route opens:
	// 1,000 a second from each process, which spares a provider that comes up.
	comebackGap = time.Millisecond
)

// comebacks give the held notifications of a route their turns, by queue. The
// zero value is ready to use.
type comebacks struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// next answers after how long a notification of that queue comes back, when the
// route is closed for so long.
func (c *comebacks) next(queue string, now time.Time, left time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = make(map[string]time.Time)
	}
	at := now.Add(min(left, longestHold))
	if next := c.last[queue].Add(comebackGap); next.After(at) {
		at = next
	}
	c.last[queue] = at
	return at.Sub(now)
}
