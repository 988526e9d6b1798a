package store

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/acknowledged"
	"github.com/pushpace/pushpace/internal/base/shard"
)

//go:embed heartbeat.lua
var heartbeatSource string

//go:embed orphans.lua
var orphansSource string

var (
	heartbeatScript = redis.NewScript(heartbeatSource)
	orphansScript   = acknowledged.Reader(redis.NewScript(readMessage + orphansSource))
)

// A Heartbeat is a worker's sign of life.
type Heartbeat struct {
	Term  string
	First bool // this is the term's first heartbeat
	// A term is dead after the time Dead without a heartbeat. Judges makes the call look for dead
	// terms.
	Dead   time.Duration
	Judges bool
}

// ErrDead means that the term was declared dead: other workers have its jobs.
var ErrDead = errors.New("this worker was declared dead")

// Heartbeat records the heartbeat, and returns other dead terms, or ErrDead if this term is dead.
// The term leads if it is the first living term by name.
func (r *Shard) Heartbeat(ctx context.Context, s Heartbeat) (dead []string, leads bool, err error) {
	reply, err := heartbeatScript.Run(ctx, r.alone, []string{r.Key("signs")}, s.Term, s.First, s.Dead.Seconds(), s.Judges).Slice()
	if errors.Is(err, redis.Nil) {
		return nil, false, ErrDead
	}
	if err != nil {
		return nil, false, err
	}
	return stringsOf(reply[1:]), reply[0] == int64(1), nil
}

// RemoveHeartbeats removes terms that have no claimed jobs.
func (r *Shard) RemoveHeartbeats(ctx context.Context, terms ...string) error {
	return r.alone.ZRem(ctx, r.Key("signs"), terms).Err()
}

// Reap returns the jobs of dead or unknown terms to the heads of their queues, the oldest accepted
// first, and returns their number. Jobs of a living term stay, however long they take.
func (r *Shard) Reap(ctx context.Context) (n int, err error) {
	for _, queue := range shard.Queues {
		jobs, failed := r.orphans(ctx, queue)
		some := 0
		if failed == nil {
			some, failed = r.GiveBack(ctx, queue, jobs)
		}
		n, err = n+some, errors.Join(err, failed)
	}
	return n, err
}

// orphans returns the queue's jobs of dead or unknown terms, by acceptance. It may miss a job that
// moves meanwhile.
func (r *Shard) orphans(ctx context.Context, queue string) ([]Job, error) {
	type orphan struct {
		Job
		accepted string
	}
	var all []orphan
	keys := []string{r.QueueKey(queue, "active"), r.Key("signs")}
	for from := 0; ; from += claimBatch {
		reply, err := orphansScript.Run(ctx, r.alone, keys, r.QueueKey(queue, "t:"), from, claimBatch, MaxEnvelopeSize).Slice()
		if err != nil {
			return nil, fmt.Errorf("find jobs of dead workers: %w", err)
		}
		for its := range slices.Chunk(reply[1:], 3) {
			if said := stringsOf(its); len(said) == 3 {
				all = append(all, orphan{Job{ID: said[0], Queue: queue, Claim: said[1]}, said[2]})
			}
		}
		if in, _ := reply[0].(int64); int64(from+claimBatch) >= in {
			break
		}
	}
	slices.SortStableFunc(all, func(a, b orphan) int { return cmp.Or(cmp.Compare(a.accepted, b.accepted), cmp.Compare(a.ID, b.ID)) })
	jobs := make([]Job, len(all))
	for i := range all {
		jobs[i] = all[i].Job
	}
	return jobs, nil
}
