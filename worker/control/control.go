// Package control changes notifications that wait: a Control cancels, withdraws, pauses,
// resumes, ends the muted, moves up those behind a released slot, and keeps what workers
// publish (snapshots, minutes). It needs no worker in its process; each worker has one.
// internal/operate decides who may.
//
// A job is taken from its queue before its end is recorded, and never from a worker that has
// it in flight.
package control

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/pause"
)

// A Control changes notifications on the queue. Its zero value is not usable.
type Control struct {
	client  redis.UniversalClient
	records *store.Records
	limiter throttle.Planner
	limits  *limits.Policies
	pauses  *pause.Store
	later   *later
}

// New returns a control over the workers' queues, records, limits and
// pauses, which are under the records' prefix.
func New(client redis.UniversalClient, records *store.Records, limiter throttle.Planner, limits *limits.Policies) *Control {
	prefix := records.Prefix()
	return &Control{client, records, limiter, limits, pause.NewStore(client, prefix), new(later)}
}

// Cancel ends a notification that waits, gives its slot back, and has those
// behind it move up. It returns push.ErrUnknownID, push.ErrEnded, push.ErrUnderWay or a
// *push.AmbiguousError when there is nothing to cancel, or not now, or one is to be
// chosen. Calling it again after another error is safe. While the limits' Redis is away
// the slot is given back later, by a worker. One whose push is to tell of others too is not
// cancelled: that is a *push.CarriesError.
func (c *Control) Cancel(ctx context.Context, ref push.Ref) error {
	return c.cancel(ctx, []push.Ref{ref}, false)[0]
}

// CancelWithOthers is Cancel also of one whose push is to tell of others, which nobody is
// told of then.
func (c *Control) CancelWithOthers(ctx context.Context, ref push.Ref) error {
	return c.CancelAll(ctx, []push.Ref{ref})[0]
}

// CancelAll is CancelWithOthers for several notifications. It takes all of them from the queue
// before it gives slots back, so that each line is placed again once.
func (c *Control) CancelAll(ctx context.Context, refs []push.Ref) []error {
	return c.cancel(ctx, refs, true)
}

func (c *Control) cancel(ctx context.Context, refs []push.Ref, others bool) []error {
	shards, errs := c.find(ctx, refs)
	in := map[*store.Shard][]int{} // indexes of refs
	for i, at := range shards {
		if errs[i] == nil {
			in[at] = append(in[at], i)
		}
	}
	taken := make([]*store.Taken, len(refs))
	var taking errgroup.Group
	for at, places := range in {
		taking.Go(func() error {
			its := make([]push.Ref, len(places))
			for k, i := range places {
				its[k] = refs[i]
			}
			some, failed := at.TakeAll(ctx, its, store.How{State: push.Cancelled, Read: push.Contents, Others: others})
			for k, i := range places {
				taken[i], errs[i] = some[k], failed[k]
			}
			return nil
		})
	}
	_ = taking.Wait() // each has its own error
	c.freeAll(ctx, slices.DeleteFunc(taken, func(t *store.Taken) bool { return t == nil }))
	return errs
}

// Withdrawn counts the results of one call of Withdraw.
type Withdrawn struct {
	push.Withdrawn
	// Next is the cursor of the user's other notifications; "" for none.
	Next string `json:"next,omitempty"`
}

// Withdraw ends a user's waiting notifications of the group as CancelAll does. It looks at up to
// 1,000 of the user's notifications, from the cursor on; "" is the first one. Calling it again after
// an error is safe.
func (c *Control) Withdraw(ctx context.Context, app, user string, g push.Group, cursor string) (w Withdrawn, err error) {
	at, err := c.records.Of(ctx, app, user)
	if err != nil {
		return w, err
	}
	done, err := at.Withdraw(ctx, app, user, cursor, g.Has, store.How{State: push.Cancelled, Read: push.Contents, Others: true})
	c.freeAll(ctx, done.Taken)
	w.Count(done)
	w.Next = done.Next
	return w, err
}

// freeAll gives slots back and follows the moves. A worker repeats a failed call, after the
// notes' grace, and counts the ends.
func (c *Control) freeAll(ctx context.Context, all []*store.Taken) {
	left, errs := c.GiveBackAll(ctx, all)
	var given []*store.Taken
	for i, err := range errs {
		if err == nil {
			given = append(given, all[i])
		}
	}
	if len(given) > 1 { // for a single one a repeated call in a worker's batch is cheaper
		_ = store.LeaveGiven(ctx, given)
	}
	for _, l := range left {
		c.Follow(ctx, l.Request, l.Placed)
	}
}

// find returns the shard of each notification, or an error.
func (c *Control) find(ctx context.Context, refs []push.Ref) ([]*store.Shard, []error) {
	shards, errs := make([]*store.Shard, len(refs)), make([]error, len(refs))
	var finding errgroup.Group
	finding.SetLimit(atOnce)
	for i, ref := range refs {
		finding.Go(func() error {
			shards[i], errs[i] = c.records.Find(ctx, ref)
			return nil
		})
	}
	_ = finding.Wait() // each has its own error
	return shards, errs
}

const (
	// atOnce bounds parallel calls for users or notifications. Parallel calls of one pipeline share
	// round trips.
	atOnce = 16
	// Batch bounds the notifications of one call: Redis serves others between two.
	Batch = 500
)

// Left holds the arguments of Follow for one user.
type Left struct {
	Request throttle.Request
	Placed  throttle.Placed
}

// GiveBackAll gives back the slots and unused admissions of notifications that were taken from
// the queue. A repeated call changes nothing. It calls the limiter once for each user and
// category, and returns the calls of Follow to make, and an error for each notification.
func (c *Control) GiveBackAll(ctx context.Context, all []*store.Taken) ([]Left, []error) {
	errs := make([]error, len(all))
	users := map[lineKey][]int{} // indexes of all
	for i, t := range all {
		if t.User != "" && !t.Given {
			key := lineKey{app: t.App, user: t.User}
			users[key] = append(users[key], i)
		}
	}
	left := make(chan Left, len(users))
	var giving errgroup.Group
	giving.SetLimit(atOnce)
	for _, places := range users {
		giving.Go(func() error {
			left <- c.giveBack(ctx, all, places, errs)
			return nil
		})
	}
	_ = giving.Wait() // each has its own error
	close(left)
	var some []Left
	for l := range left {
		if l.Placed.Any() {
			some = append(some, l)
		}
	}
	return some, errs
}

// giveBack is GiveBackAll for one user. places are the indexes of the user's notifications.
func (c *Control) giveBack(ctx context.Context, all []*store.Taken, places []int, errs []error) (left Left) {
	categories := map[string][]int{}
	for _, i := range places {
		categories[all[i].Category] = append(categories[all[i].Category], i)
	}
	for category, places := range categories {
		first := all[places[0]]
		scopes := c.limits.Scopes(first.App, first.User, category)
		if len(scopes) == 0 {
			continue
		}
		for some := range slices.Chunk(places, Batch) {
			requests := make([]throttle.Request, len(some))
			for k, i := range some {
				requests[k] = throttle.Request{App: first.App, User: first.User, ID: all[i].ID, Category: category, Scopes: scopes, Used: all[i].Used}
			}
			placed, err := c.limiter.CancelAll(ctx, requests)
			if err == nil {
				left.add(requests[0], placed)
				continue
			}
			for _, i := range some {
				errs[i] = fmt.Errorf("its slot: %w", err)
			}
		}
	}
	return left
}

// add merges the answer to a later call for the user.
func (l *Left) add(r throttle.Request, p throttle.Placed) {
	line := r.Line()
	own := func(other throttle.Line) bool { return other == line }
	l.Placed.Early = slices.DeleteFunc(l.Placed.Early, func(b throttle.Booking) bool { return b.Category == line.Category })
	l.Placed.Others = slices.DeleteFunc(l.Placed.Others, own)
	for _, other := range p.Others {
		if !slices.Contains(l.Placed.Others, other) {
			l.Placed.Others = append(l.Placed.Others, other)
		}
	}
	if p.After == 0 { // else the Replan after that time names them
		l.Placed.Early = append(l.Placed.Early, p.Early...)
	}
	switch {
	case l.Request.User == "" || l.Request.Line() == line:
		l.Request, l.Placed.After = r, p.After
	case p.After > 0:
		l.Placed.Others = append(l.Placed.Others, line)
	}
}
