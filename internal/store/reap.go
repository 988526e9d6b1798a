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

// A Sign is a worker's sign of life.
type Sign struct {
	Term string
	// Alive says that the term cannot be dead: this is its first sign, or the last one was
	// answered less than half of Dead ago.
	Alive bool
	// Dead is after how long without a sign a term is dead, and Judges that such terms are
	// looked for.
	Dead   time.Duration
	Judges bool
}

// ErrDead means that the term was taken for dead: others have what it had in hand.
var ErrDead = errors.New("this worker was taken for dead")

// Sign leaves the sign, and returns other terms that are dead, or ErrDead. The term leads if it
// is the first, by name, of those that sign.
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

// SignOff takes terms off the signs: nothing is in their hands.
func (r *Shard) SignOff(ctx context.Context, terms ...string) error {
	return r.alone.ZRem(ctx, r.Key("signs"), terms).Err()
}

// Reap returns the jobs whose terms do not sign to the heads of their queues, those that were
// accepted first before the others, and returns how many. Jobs of a term that signs stay where
// they are, however long.
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

// astray returns the jobs of the queue whose terms do not sign, in the order of acceptance. It may
// miss a job that moves meanwhile.
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
