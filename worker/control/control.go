// Package control reads and changes notifications for operators: what waits and for what,
// where a notification is, a user's timeline, what was accepted and what became of it; it
// cancels, pauses and resumes. internal/operate decides who may.
//
// Everything is read from Redis: from the records, from asynq's queues (by
// worker/queue), from the pauses (worker/pause), from the limiter, and from the
// snapshots that each worker leaves of what only it knows. A control needs no worker
// in its process, and a worker has one itself, for what it wakes and gives back.
//
//   - What is looked at may have moved on: answers are of an instant, and of a page at
//     most.
//   - What is changed is changed as by any other process: a job is taken from asynq
//     before its end is recorded, and never from a worker's hands.
//   - A job says why it has returned to the queue in words from a closed set (see
//     cause.go), which the workers write and Causes are read from.
package control

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/queue"
)

// Control is for operators: it looks at the notifications on the queue, and
// takes them from it. Its zero value is not usable.
type Control struct {
	client  redis.UniversalClient
	records *ledger.Records
	limiter throttle.Planner
	limits  *limits.Policies
	pauses  *pause.Store
	// exact is how many jobs are all looked into for what they wait for. Of more so many are
	// drawn of each queue and state.
	exact, sample int
	later         *later
}

const (
	exactBelow = 5000
	sampleSize = 200
	// leastSample is drawn at least where there are several shards, which share a sample.
	leastSample = 20
)

// New returns a control over the workers' queues, records, limits and
// pauses, which are under the records' prefix.
func New(client redis.UniversalClient, records *ledger.Records, limiter throttle.Planner, limits *limits.Policies) *Control {
	prefix := records.Prefix()
	return &Control{client, records, limiter, limits, pause.NewStore(client, prefix), exactBelow, sampleSize, new(later)}
}

// Sampling returns a control that draws so many jobs of each queue and state, however few
// there are.
func (c *Control) Sampling(sample int) *Control {
	other := *c
	other.exact, other.sample = 0, sample
	return &other
}

// Cancel ends a notification that waits, gives its slot back, and has those
// behind it move up. It returns push.ErrUnknownID, push.ErrEnded, push.ErrUnderWay or a
// *push.AmbiguousError when there is nothing to cancel, or not now, or one is to be
// chosen. Calling it again after another error is safe. While the limits' Redis is away
// the slot is given back later, by a worker. One whose push is to tell of others too is not
// cancelled: that is a *push.CarriesError.
func (c *Control) Cancel(ctx context.Context, ref push.Ref) error {
	return c.cancel(ctx, ref, (*ledger.Shard).Take)
}

// CancelWithOthers is Cancel also of one whose push is to tell of others, which nobody is
// told of then.
func (c *Control) CancelWithOthers(ctx context.Context, ref push.Ref) error {
	return c.cancel(ctx, ref, (*ledger.Shard).TakeWithOthers)
}

func (c *Control) cancel(ctx context.Context, ref push.Ref, take func(*ledger.Shard, context.Context, ledger.Ref, ledger.State, func([]byte) (ledger.Contents, error)) (*ledger.Taken, error)) error {
	at, err := c.records.Find(ctx, ref)
	if err != nil {
		return err
	}
	taken, err := take(at, ctx, ref, push.Cancelled, push.Contents)
	if err != nil {
		return err
	}
	request, placed, err := c.GiveBack(ctx, taken)
	if err == nil {
		c.Follow(ctx, request, placed)
	}
	_ = taken.Leave(ctx) // else it is counted a little later
	return nil
}

// jobs are those of a shard.
func (c *Control) jobs(at *ledger.Shard) *queue.Inspector {
	return queue.NewInspector(c.client, at.Shard)
}

// GiveBack gives back what a notification holds that was taken from the queue,
// which changes nothing the second time. Its request and what it leaves to do are for Follow.
func (c *Control) GiveBack(ctx context.Context, t *ledger.Taken) (throttle.Request, throttle.Placed, error) {
	r := throttle.Request{App: t.App, User: t.User, ID: t.ID, Category: t.Category, Scopes: c.limits.Scopes(t.App, t.User, t.Category), Used: t.Used}
	if t.User == "" || len(r.Scopes) == 0 {
		return r, throttle.Placed{}, nil
	}
	placed, err := c.limiter.Cancel(ctx, r)
	if err != nil {
		return r, placed, fmt.Errorf("its slot: %w", err)
	}
	return r, placed, nil
}
