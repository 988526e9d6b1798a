package control

import (
	"context"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/base/zone"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

const (
	// wakeRetryDelay is the delay before a retry for a job that is still claimed. A job's return to the
	// queue takes some ms.
	wakeRetryDelay = 500 * time.Millisecond
	// maxWakeTries is the number of tries, over 4 s. A worker that stalls for longer has lost its
	// jobs.
	maxWakeTries = 9
)

// Follow completes calls to the limiter for a user: it places the other lines again, and wakes jobs with
// slots earlier than the jobs know. If a step fails, later calls to the limiter name its lines and jobs
// again. r is the request of one of the calls: it names the user, and the line to place again after a
// second.
func (c *Control) Follow(ctx context.Context, r throttle.Request, placed throttle.FollowUp) {
	early := placed.Early
	if len(placed.Others) > 0 {
		again, err := c.limiter.Replan(ctx, c.lines(r, placed.Others))
		if err == nil {
			early = append(early, again.Early...)
			if again.After > 0 {
				c.delayed.after(ctx, again.After, lineKey{app: r.App, user: r.User, others: true}, func(ctx context.Context) {
					c.replan(ctx, r, c.lines(r, placed.Others))
				})
			}
		}
	}
	if placed.After > 0 {
		c.delayed.after(ctx, placed.After, lineKey{app: r.App, user: r.User, line: r.Line()}, func(ctx context.Context) {
			c.replan(ctx, r, c.lines(r, []throttle.Line{r.Line()})) // uses the limits that are in force when it runs
		})
	}
	c.wake(ctx, r, early)
}

// replan is the delayed part of Follow, for lines that were placed less than a second before it.
func (c *Control) replan(ctx context.Context, r throttle.Request, lines []throttle.Request) {
	placed, err := c.limiter.Replan(ctx, lines)
	if err != nil {
		return // the jobs keep the slots that they know
	}
	c.wake(ctx, r, placed.Early)
}

// Rest waits until no delayed call is pending, or ctx ends.
func (c *Control) Rest(ctx context.Context) { c.delayed.rest(ctx) }

func (c *Control) lines(r throttle.Request, all []throttle.Line) []throttle.Request {
	requests := LineRequests(r.App, r.User, all, c.limits.InForce)
	for i := range requests {
		requests[i].AfterLeave = true
	}
	return requests
}

// LineRequests returns a LineRequest for each of the user's lines.
func LineRequests(app, user string, lines []throttle.Line, inForce func(limits.Level) limits.EffectivePolicy) []throttle.Request {
	requests := make([]throttle.Request, len(lines))
	for i, line := range lines {
		requests[i] = LineRequest(app, user, line, inForce)
	}
	return requests
}

// LineRequest returns the request that places a line of the user by the given limits.
func LineRequest(app, user string, line throttle.Line, inForce func(limits.Level) limits.EffectivePolicy) throttle.Request {
	level := limits.Level{App: app, User: user, Category: line.Category}
	general, own := inForce(limits.Level{App: app, User: user}).Policy, inForce(level).Policy
	r := throttle.Request{App: app, User: user, Category: line.Category, Scopes: []throttle.Scope{{Name: throttle.General, Policy: general}}}
	if line.Category != "" && (own.Exempt || own.IsSet()) {
		r.Scopes = append(r.Scopes, throttle.Scope{Name: line.Category, Policy: own})
	}
	if line.Zone != "" {
		if in, err := zone.Load(line.Zone); err == nil {
			r.Zone = in
		}
	}
	return r
}

// Wake moves the user's jobs to slots earlier than the jobs know.
func (c *Control) Wake(ctx context.Context, app, user string, early []throttle.Booking) {
	c.wake(ctx, throttle.Request{App: app, User: user}, early)
}

func (c *Control) wake(ctx context.Context, r throttle.Request, early []throttle.Booking) {
	c.wakeFor(ctx, r, early, 1)
}

// wakeFor is wake for the given try. It does not wait for retries.
func (c *Control) wakeFor(ctx context.Context, r throttle.Request, early []throttle.Booking, try int) {
	if len(early) == 0 {
		return
	}
	at, err := c.records.Of(ctx, r.App, r.User)
	if err != nil {
		return
	}
	var awake []throttle.Booking
	for some := range slices.Chunk(early, Batch) {
		informed, again := c.wakeSome(ctx, r, at, some)
		_ = c.limiter.ClearEarly(ctx, throttle.Request{App: r.App, User: r.User}, informed) // on an error the limiter names these bookings again
		awake = append(awake, again...)
	}
	if len(awake) > 0 && try < maxWakeTries {
		c.delayed.again(ctx, lineKey{app: r.App, user: r.User, try: try}, awake, func(ctx context.Context, awake []throttle.Booking) {
			c.wakeFor(ctx, r, awake, try+1)
		})
	}
}

// wakeSome sets the due instants of sleeping jobs to their slots, if these are earlier. It returns as
// awake the claimed jobs, which may be returning to the queue. It releases the slots of ended
// notifications.
func (c *Control) wakeSome(ctx context.Context, r throttle.Request, at *store.Shard, some []throttle.Booking) (informed, awake []throttle.Booking) {
	ids := make([]string, len(some))
	for i, b := range some {
		ids[i] = b.ID
	}
	known, err := at.Briefs(ctx, ids)
	if err != nil {
		return nil, some
	}
	asleep := map[string][]throttle.Booking{} // by queue
	for _, b := range some {
		if record, there := known[b.ID]; there && !record.State.Ended() {
			asleep[record.Queue] = append(asleep[record.Queue], b)
		} else {
			c.releaseEnded(ctx, r, b)
		}
	}
	for on, list := range asleep {
		wakes := make([]store.Wake, len(list))
		for i, b := range list {
			wakes[i] = store.Wake{ID: b.ID, At: b.Slot}
		}
		inHand, err := at.WakeAll(ctx, on, wakes)
		for _, b := range list {
			if err != nil || slices.Contains(inHand, b.ID) {
				awake = append(awake, b)
			} else {
				informed = append(informed, b)
			}
		}
	}
	return informed, awake
}

// releaseEnded releases the slot of an ended notification, and wakes the next jobs.
func (c *Control) releaseEnded(ctx context.Context, r throttle.Request, b throttle.Booking) {
	gone := throttle.Request{App: r.App, User: r.User, ID: b.ID, Category: b.Category, Scopes: c.limits.Scopes(r.App, r.User, b.Category), Used: true}
	if placed, err := c.limiter.Cancel(ctx, gone); err == nil {
		c.Follow(ctx, gone, placed)
	}
}
