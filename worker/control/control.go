// Package control changes waiting notifications for operators. Start with Control: it cancels,
// withdraws, pauses and resumes, ends muted notifications, and wakes jobs with earlier slots. The
// package also has the data that workers publish, Snapshot and Minute. A Control needs no worker
// in its process; each worker has one. internal/operate checks the caller's rights.
//
// A change takes a job from its queue before it records the end. It must not take a job that a
// worker has claimed.
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
	delayed *delayed
	losses  *losses
}

// New returns a control over the workers' queues, records, limits and pauses under the records'
// prefix.
func New(client redis.UniversalClient, records *store.Records, limiter throttle.Planner, limits *limits.Policies) *Control {
	prefix := records.Prefix()
	return &Control{client, records, limiter, limits, pause.NewStore(client, prefix), new(delayed), newLosses()}
}

// Cancel ends a waiting notification, releases its slot and places the line behind it again. If it
// cannot, it returns push.ErrUnknownID, push.ErrEnded, push.ErrUnderWay or a *push.AmbiguousError.
// A repeated call after another error is safe. While the limits' Redis is unreachable, a worker
// releases the slot later. A notification that carries more notifications of its digest than others
// is not cancelled: the error is a *push.CarriesError. Cancel returns the number of carried
// notifications, which are not sent.
func (c *Control) Cancel(ctx context.Context, ref push.Ref, others int) (carried int, err error) {
	all, errs := c.cancel(ctx, []push.Ref{ref}, others)
	return all[0], errs[0]
}

// CancelAll is Cancel for several notifications, with all others of their digests. It takes all from
// their queues before it releases slots, so that each line is placed again once.
func (c *Control) CancelAll(ctx context.Context, refs []push.Ref) (carried []int, errs []error) {
	return c.cancel(ctx, refs, store.AllOthers)
}

func (c *Control) cancel(ctx context.Context, refs []push.Ref, others int) (carried []int, errs []error) {
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
			some, failed := at.TakeAll(ctx, its, store.TakeOptions{State: push.Cancelled, Read: push.Contents, Others: others})
			for k, i := range places {
				taken[i], errs[i] = some[k], failed[k]
			}
			return nil
		})
	}
	_ = taking.Wait() // each has its own error
	carried = make([]int, len(refs))
	for i, t := range taken {
		if t != nil {
			carried[i] = t.Carried
		}
	}
	c.releaseAll(ctx, slices.DeleteFunc(taken, func(t *store.Taken) bool { return t == nil }))
	return carried, errs
}

// Withdrawn counts the results of a Withdraw.
type Withdrawn struct {
	push.Withdrawn
	// Next is the cursor of the user's other notifications; "" if there are no others.
	Next string `json:"next,omitempty"`
}

// Withdraw ends a user's waiting notifications of the group as CancelAll does. It reads up to 1,000 of
// the user's notifications from the cursor on; "" is the start. A repeated call after an error is safe.
func (c *Control) Withdraw(ctx context.Context, app, user string, g push.Group, cursor string) (w Withdrawn, err error) {
	at, err := c.records.Of(ctx, app, user)
	if err != nil {
		return w, err
	}
	done, err := at.Withdraw(ctx, app, user, cursor, g.Has, store.TakeOptions{State: push.Cancelled, Read: push.Contents, Others: store.AllOthers})
	c.releaseAll(ctx, done.Taken)
	w.Count(done)
	w.Next = done.Next
	return w, err
}

// releaseAll releases the slots of taken notifications and makes the Follow calls that result. If
// a call fails, a worker repeats it later. Workers also count the ended notifications, after a
// grace period.
func (c *Control) releaseAll(ctx context.Context, all []*store.Taken) {
	left, errs := c.GiveBackAll(ctx, all)
	var given []*store.Taken
	for i, err := range errs {
		if err == nil {
			given = append(given, all[i])
		}
	}
	if len(given) > 1 { // for a single notification, a repeated call in a worker's batch is cheaper
		_ = store.MarkReleased(ctx, given)
	}
	for _, l := range left {
		c.Follow(ctx, l.Request, l.FollowUp)
	}
}

// find returns the shard of each notification, or an error.
func (c *Control) find(ctx context.Context, refs []push.Ref) ([]*store.Shard, []error) {
	shards, errs := make([]*store.Shard, len(refs)), make([]error, len(refs))
	var finding errgroup.Group
	finding.SetLimit(maxParallel)
	for i, ref := range refs {
		finding.Go(func() error {
			shards[i], errs[i] = c.records.Find(ctx, ref)
			return nil
		})
	}
	_ = finding.Wait() // errs has the errors
	return shards, errs
}

const (
	// maxParallel bounds parallel calls for users or notifications. Calls in one pipeline share round
	// trips.
	maxParallel = 16
	// Batch bounds the notifications of one call: Redis serves other clients between two calls.
	Batch = 500
)

// Left holds the arguments of Follow for one user.
type Left struct {
	Request  throttle.Request
	FollowUp throttle.FollowUp
}

// GiveBackAll releases the slots and unused admissions of taken notifications. A repeated call
// changes nothing. It calls the limiter once for each user and category. It returns the arguments
// of the Follow calls to make, and an error for each notification.
func (c *Control) GiveBackAll(ctx context.Context, all []*store.Taken) ([]Left, []error) {
	errs := make([]error, len(all))
	users := map[lineKey][]int{} // indexes of all
	for i, t := range all {
		if t.User != "" && !t.Released {
			key := lineKey{app: t.App, user: t.User}
			users[key] = append(users[key], i)
		}
	}
	left := make(chan Left, len(users))
	var giving errgroup.Group
	giving.SetLimit(maxParallel)
	for _, places := range users {
		giving.Go(func() error {
			left <- c.giveBack(ctx, all, places, errs)
			return nil
		})
	}
	_ = giving.Wait() // errs has the errors
	close(left)
	var some []Left
	for l := range left {
		if l.FollowUp.Any() {
			some = append(some, l)
		}
	}
	return some, errs
}

// giveBack is GiveBackAll for one user. places are indexes of all.
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
				errs[i] = fmt.Errorf("give back a slot: %w", err)
			}
		}
	}
	return left
}

// add merges the answer to a later call for the user.
func (l *Left) add(r throttle.Request, p throttle.FollowUp) {
	line := r.Line()
	own := func(other throttle.Line) bool { return other == line }
	l.FollowUp.Early = slices.DeleteFunc(l.FollowUp.Early, func(b throttle.Booking) bool { return b.Category == line.Category })
	l.FollowUp.Others = slices.DeleteFunc(l.FollowUp.Others, own)
	for _, other := range p.Others {
		if !slices.Contains(l.FollowUp.Others, other) {
			l.FollowUp.Others = append(l.FollowUp.Others, other)
		}
	}
	if p.After == 0 { // else the Replan after p.After names them
		l.FollowUp.Early = append(l.FollowUp.Early, p.Early...)
	}
	switch {
	case l.Request.User == "" || l.Request.Line() == line:
		l.Request, l.FollowUp.After = r, p.After
	case p.After > 0:
		l.FollowUp.Others = append(l.FollowUp.Others, line)
	}
}
