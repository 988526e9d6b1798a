package worker

import (
	"cmp"
	"context"
	"errors"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/clock"
)

// collapsing has the newest notification of a collapse key take the place of older ones. It
// takes those from the queue, and neither ends nor returns the job in hand.
type collapsing struct {
	*Options
	slots *slots
	taken *taken
	// overtaken are older notifications that some worker had in its hands, beyond its
	// look at the collapse key, when a newer one came, by their shard and ID; and when that
	// was.
	overtaken *lru.Cache[overtaken, time.Time]
}

// An overtaken notification is an older one that some worker had in its hands.
type overtaken struct {
	at *store.Shard
	id string
}

func newCollapsing(o *Options, s *slots, t *taken) *collapsing {
	kept, _ := lru.New[overtaken, time.Time](overtakenMost) // which fails for sizes below 1
	return &collapsing{o, s, t, kept}
}

// collapse makes way for the newest notification of a collapse key: an older
// one that still waits is superseded, and its slot inherited. It reports whether
// the delivery itself is the older one. What is being sent right now is not
// stopped: the device replaces it. What goes back to the queue is superseded there.
//
// The key is the delivery's for that time, or until it expires where that is later, and the
// retention longer.
func (c *collapsing) collapse(ctx context.Context, d *delivery, wait time.Duration) (superseded bool, err error) {
	if d.CollapseKey == "" {
		return false, nil
	}
	if !d.ExpiresAt.IsZero() {
		wait = max(wait, time.Until(d.ExpiresAt))
	}
	var done []string
	for {
		newest, older, err := d.at.Records.Collapse(ctx, store.CollapseKey{App: d.App, User: d.User, Key: d.CollapseKey}, d.ID, d.accepted, wait, done)
		if err != nil || !newest || len(older) == 0 {
			return err == nil && !newest, err
		}
		if err := c.supersede(ctx, d, older); err != nil {
			return false, err
		}
		done = older
	}
}

// supersede ends older notifications, and returns the first error. The delivery inherits the
// slot of the first of its category.
func (c *collapsing) supersede(ctx context.Context, d *delivery, older []string) error {
	at := d.at.Records
	taken, errs := at.TakeAll(ctx, named(older), superseded)
	var failed error
	var others []*store.Taken
	for i, err := range errs {
		switch one := taken[i]; {
		case errors.Is(err, push.ErrUnknownID), errors.Is(err, push.ErrEnded):
		case errors.Is(err, push.ErrUnderWay):
			c.overtaken.Add(overtaken{at, older[i]}, time.Now())
		case err != nil:
			failed = cmp.Or(failed, err)
		case d.elder == nil && one.User == d.User && one.Category == d.Category && len(c.request(d).Scopes) > 0:
			d.elder = one // its place among those who wait: what it was admitted with is not inherited
		default:
			others = append(others, one)
		}
	}
	return cmp.Or(failed, c.taken.free(ctx, others))
}

// superseded says how older notifications are taken from the queue.
var superseded = store.How{State: push.Superseded, Read: push.Contents}

func named(ids []string) []store.Ref {
	refs := make([]store.Ref, len(ids))
	for i, id := range ids {
		refs[i].ID = id
	}
	return refs
}

const (
	// overtakenEvery is how often those are looked at that were overtaken, and
	// overtakenFor for how long: a visit is over by then, and one of a worker that
	// crashed is repeated.
	overtakenEvery = 500 * time.Millisecond
	overtakenFor   = time.Minute
	// What is beyond overtakenMost is superseded when it comes back by itself.
	overtakenMost = 10_000
)

// follow supersedes what was overtaken and is back on the queue, so
// that it does not keep a slot until that slot, until ctx ends.
func (c *collapsing) follow(ctx context.Context) {
	clock.Every(ctx, overtakenEvery, func() {
		in := map[*store.Shard][]string{}
		for _, one := range c.overtaken.Keys() {
			in[one.at] = append(in[one.at], one.id)
		}
		for at, ids := range in {
			c.supersedeBack(ctx, at, ids)
		}
	})
}

// supersedeBack ends the notifications that are back on the queue, and keeps the others for the
// next call. Their slots go to the next in line: the newer notifications may have ended by now.
func (c *collapsing) supersedeBack(ctx context.Context, at *store.Shard, ids []string) {
	taken, errs := at.TakeAll(ctx, named(ids), superseded)
	var back []*store.Taken
	for i, err := range errs {
		one := overtaken{at, ids[i]}
		since, _ := c.overtaken.Peek(one)
		if err == nil {
			back = append(back, taken[i])
		}
		if err == nil || errors.Is(err, push.ErrUnknownID) || errors.Is(err, push.ErrEnded) || time.Since(since) > overtakenFor {
			c.overtaken.Remove(one)
		}
	}
	_ = c.taken.free(ctx, back) // else taken.follow gives the slots back
}

// postpone is delivery.postpone. Its collapse key lives on until its slot.
func (h *handler) postpone(ctx context.Context, d *delivery, decision throttle.Decision) fate {
	to := d.postpone(decision)
	to.Since = time.Now()
	if !d.ExpiresAt.IsZero() { // until then its key lives anyway
		return to
	}
	if superseded, err := h.collapsing.collapse(ctx, d, decision.Left); err != nil {
		return later(err)
	} else if superseded {
		return d.superseded()
	}
	return to
}
