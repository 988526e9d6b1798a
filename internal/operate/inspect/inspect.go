// Package inspect reads from Redis the causes of waits, the waiting notifications, a user's
// timeline, and the accounts. Start with Inspector. It must not change anything.
//
// It reads records, queues, pauses, the limiter, and the snapshots of the workers. It needs no
// worker in its process. An answer shows one instant and holds at most a page: jobs may have
// moved since. A Cause follows from a job's last return (see cause.go), for which workers write a
// reason from a closed set.
package inspect

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// An Inspector answers operators' questions. Its zero value is not usable.
type Inspector struct {
	client  redis.UniversalClient
	records *store.Records
	limiter throttle.Planner
	limits  *limits.Policies
	pauses  *pause.Store
	// Up to exact jobs are all classified by cause. Of more jobs, sample are drawn from each
	// queue and state.
	exact, sample int
}

const (
	// exactBelow and sampleSize bound the reads of one question. A sample of 200 shows a share
	// with a standard deviation of 4 % at most.
	exactBelow = 5000
	sampleSize = 200
	// leastSample is each shard's smallest part of a sample that several shards share.
	leastSample = 20
)

// New returns an inspector of the queues, records and pauses below the records' prefix. A nil
// limiter leaves out the users' timelines.
func New(client redis.UniversalClient, records *store.Records, limiter throttle.Planner, limits *limits.Policies) *Inspector {
	return &Inspector{client, records, limiter, limits, pause.NewStore(client, records.Prefix()), exactBelow, sampleSize}
}

// Sampling returns an inspector that always draws this many jobs from each queue and state.
func (c *Inspector) Sampling(sample int) *Inspector {
	other := *c
	other.exact, other.sample = 0, sample
	return &other
}

// Pauses returns the pauses in force, the operators' first, then the providers', then the
// trouble that no pause covers, and counts the waiting notifications of each in the shards
// that answer.
func (c *Inspector) Pauses(ctx context.Context) ([]pause.Pause, error) {
	in, err := c.liveState(ctx)
	if err != nil {
		return nil, err
	}
	if len(in.pauses) == 0 {
		return in.pauses, nil
	}
	b, err := c.backlogNow(ctx, in)
	if _, err := store.Unreachable(err); err != nil {
		return nil, err
	}
	return b.Pauses, nil
}

// PausesOf is Pauses by these workers' snapshots, without the counts.
func (c *Inspector) PausesOf(ctx context.Context, workers []control.Snapshot) ([]pause.Pause, error) {
	shared, err := c.pauses.Read(ctx)
	if err != nil {
		return nil, err
	}
	return control.PausesInForce(shared, workers), nil
}
