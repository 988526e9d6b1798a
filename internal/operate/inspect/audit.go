package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/clock"
)

// An Audit compares what was accepted with what became of it.
type Audit struct {
	Accepted  int64                `json:"accepted"`
	Ended     map[push.State]int64 `json:"ended"`
	Waiting   int64                `json:"waiting"`
	Malformed int64                `json:"malformed"`
	// Queued is how many jobs asynq holds. What waits and is not queued is lost;
	// what is queued and does not wait is not accepted yet, or malformed.
	Queued int64 `json:"queued"`
	// InFlight is how many of them the workers have in hand.
	InFlight int64 `json:"in_flight"`
	// Difference is Waiting less Queued: 0 at rest, and in motion within what is
	// in flight.
	Difference int64 `json:"difference"`
	// Unread are the shards that did not answer, by their numbers: the sums are without
	// theirs.
	Unread []int `json:"unread_shards,omitempty"`
}

// A Balance is what an audit says of the accounts.
type Balance int

// What it may say.
const (
	Balanced   Balance = iota // the difference is within what is in flight
	Unbalanced                // it is not
	Untold                    // some shards did not answer
)

// Balance returns what it says.
func (a *Audit) Balance() Balance {
	switch {
	case len(a.Unread) > 0:
		return Untold
	case max(a.Difference, -a.Difference) > a.InFlight:
		return Unbalanced
	}
	return Balanced
}

const (
	// Jobs are on the queue for a moment that do not wait: of what ended when its worker
	// crashed, and what nobody has accepted. Where there are more than in flight they are
	// counted again: within a second a worker has them.
	auditTries = 10
	auditPause = 100 * time.Millisecond
)

// Audit counts what is at one instant, again for a second at most while there are too many
// jobs, and no longer than until the deadline. What is lost stays so.
func (c *Inspector) Audit(ctx context.Context) (*Audit, error) {
	for try := 1; ; try++ {
		a, err := c.count(ctx)
		if err != nil || a.Balance() != Unbalanced || a.Difference > 0 || try == auditTries {
			return a, err
		}
		if ends, some := ctx.Deadline(); some && time.Until(ends) < 2*auditPause {
			return a, nil
		}
		if err := clock.Sleep(ctx, auditPause); err != nil {
			return nil, err
		}
	}
}

// count counts what is at one instant in each shard: nothing goes from one to another.
func (c *Inspector) count(ctx context.Context) (*Audit, error) {
	type both struct {
		counts store.Counts
		jobs   store.Jobs
	}
	all, err := store.Each(ctx, c.records, func(ctx context.Context, at *store.Shard) (both, error) {
		pipe := c.client.TxPipeline()
		sums, queues := at.CountsOn(ctx, pipe), at.JobsOn(ctx, pipe)
		if _, err := pipe.Exec(ctx); err != nil {
			return both{}, fmt.Errorf("count what was accepted and what waits: %w", err)
		}
		counts, err := sums()
		return both{counts, queues()}, err
	})
	unread, err := store.Unread(err)
	if err != nil {
		return nil, err
	}
	sum, jobs := store.Counts{}, make(map[int]store.Jobs, len(all))
	for shard, one := range all {
		sum, jobs[shard] = sum.Plus(one.counts), one.jobs
	}
	return newAudit(sum, store.SumJobs(jobs), unread), nil
}

func newAudit(counts store.Counts, queues store.Jobs, unread []int) *Audit {
	a := &Audit{Accepted: counts.Accepted, Ended: counts.Ended, Waiting: counts.Waiting(), Malformed: counts.Malformed, Unread: unread}
	for _, jobs := range queues {
		a.InFlight += jobs[store.JobActive]
		a.Queued += jobs[store.JobPending] + jobs[store.JobActive] + jobs[store.JobScheduled] + jobs[store.JobPutOff]
	}
	a.Difference = a.Waiting - a.Queued
	return a
}
