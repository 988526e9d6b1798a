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

//go:embed sign.lua
var signSource string

//go:embed astray.lua
var astraySource string

var (
	signScript   = redis.NewScript(signSource)
	astrayScript = acknowledged.Reader(redis.NewScript(readMessage + astraySource))
)

// A Heartbeat is a worker's sign of life.
type Sign struct {
	Term string
	// Alive is true if the term cannot be dead: this is its first heartbeat, or the last one was
	// answered less than half of Dead ago.
	Alive bool
	// A term without a heartbeat for Dead is dead. Judges makes this call look for such terms.
	Dead   time.Duration
	Judges bool
}

// ErrDead means that the term was declared dead: other workers have its jobs.
var ErrDead = errors.New("this worker was taken for dead")

// Heartbeat records the heartbeat, and returns other terms that are dead, or ErrDead. The term
// leads if it is the first, by name, of the living.
func (r *Shard) Sign(ctx context.Context, s Sign) (dead []string, leads bool, err error) {
	reply, err := signScript.Run(ctx, r.alone, []string{r.Key("signs")}, s.Term, s.Alive, s.Dead.Seconds(), s.Judges).Slice()
	if errors.Is(err, redis.Nil) {
		return nil, false, ErrDead
	}
	if err != nil {
		return nil, false, err
	}
	return texts(reply[1:]), reply[0] == int64(1), nil
}

// RemoveHeartbeats removes terms that have no claimed jobs.
func (r *Shard) SignOff(ctx context.Context, terms ...string) error {
	return r.alone.ZRem(ctx, r.Key("signs"), terms).Err()
}

// Reap returns the jobs of dead or unknown terms to the heads of their queues, the oldest accepted
// first, and returns their number. Jobs of a living term stay, however long they take.
func (r *Shard) Reap(ctx context.Context) (n int, err error) {
	for _, queue := range shard.Queues {
		jobs, failed := r.astray(ctx, queue)
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
func (r *Shard) astray(ctx context.Context, queue string) ([]Job, error) {
	type orphan struct {
		Job
		accepted string
	}
	var all []orphan
	keys := []string{r.QueueKey(queue, "active"), r.Key("signs")}
	for from := 0; ; from += handsAtOnce {
		reply, err := astrayScript.Run(ctx, r.alone, keys, r.QueueKey(queue, "t:"), from, handsAtOnce, MaxEnvelopeSize).Slice()
		if err != nil {
			return nil, fmt.Errorf("look for jobs of dead workers: %w", err)
		}
		for its := range slices.Chunk(reply[1:], 3) {
			if said := texts(its); len(said) == 3 {
				all = append(all, orphan{Job{ID: said[0], Queue: queue, Hand: said[1]}, said[2]})
			}
		}
		if in, _ := reply[0].(int64); int64(from+handsAtOnce) >= in {
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
