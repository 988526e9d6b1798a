package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/clock"
)

// An Audit compares accepted notifications with their ends and their jobs.
type Audit struct {
	Accepted  int64                `json:"accepted"`
	Ended     map[push.State]int64 `json:"ended"`
	Waiting   int64                `json:"waiting"`
	Malformed int64                `json:"malformed"`
	// Queued is the number of jobs. A waiting notification without a job is lost. A job without a
	// waiting notification is not accepted yet, or malformed.
	Queued int64 `json:"queued"`
	// InFlight is the number of claimed jobs.
	InFlight int64 `json:"in_flight"`
	// Difference is Waiting less Queued: 0 at rest, and at most InFlight in motion.
	Difference int64 `json:"difference"`
	// Unread are the numbers of shards that did not answer; the sums omit them.
	Unread []int `json:"unread_shards,omitempty"`
}

// A Balance is the result of an audit.
type Balance int

// The results.
const (
	Balanced   Balance = iota // the difference is at most InFlight
	Unbalanced                // the difference exceeds InFlight
	Incomplete                // some shards did not answer
)

// Balance returns the result.
func (a *Audit) Balance() Balance {
	switch {
	case len(a.Unread) > 0:
		return Incomplete
	case max(a.Difference, -a.Difference) > a.InFlight:
		return Unbalanced
	}
	return Balanced
}

const (
	// After a crash, jobs of ended notifications may exist for a moment, and so may jobs of
	// notifications that are not accepted. If the difference exceeds InFlight, Audit counts
	// again: a worker claims such jobs within a second.
	auditTries = 10
	auditPause = 100 * time.Millisecond
)

// Audit counts at one instant. While there are too many jobs it counts again, for at most a
// second and not beyond ctx's deadline. A loss stays visible.
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

// count counts at one instant in each shard: nothing moves between shards.
func (c *Inspector) count(ctx context.Context) (*Audit, error) {
	type both struct {
		counts store.Counts
		jobs   store.Jobs
	}
	all, err := store.Each(ctx, c.records, func(ctx context.Context, at *store.Shard) (both, error) {
		pipe := c.client.TxPipeline()
		sums, queues := at.CountsOn(ctx, pipe), at.JobsOn(ctx, pipe)
		if _, err := pipe.Exec(ctx); err != nil {
			return both{}, fmt.Errorf("count notifications and jobs: %w", err)
		}
		counts, err := sums()
		return both{counts, queues()}, err
	})
	unread, err := store.Unreachable(err)
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
