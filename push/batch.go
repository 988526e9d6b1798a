package push

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
)

// A Result is what became of one notification of EnqueueAll.
type Result struct {
	Receipt
	// Err is as Enqueue's.
	Err error
}

// EnqueueAll is Enqueue for many notifications, each on its own, in one round
// trip where record and job can be made in one step, which is on one Redis.
// Those of one user stay in order. The results are in the order of the
// notifications, of which the caller changes none meanwhile.
func (p *Producer) EnqueueAll(ctx context.Context, notifications []*Notification) []Result {
	results := make([]Result, len(notifications))
	now := time.Now()
	var batch []*ledger.Acceptance
	var at, alone []int // the indices of those in the batch, and of the others
	for i, n := range notifications {
		accepted, err := p.complete(n, now)
		results[i] = Result{Receipt{ID: accepted.ID}, err}
		switch {
		case err != nil:
		case p.oneStep != nil && !accepted.overdue(now):
			a, _, err := p.acceptance(ctx, &Job{Notification: &accepted, AcceptedAt: p.accepted.next()})
			if err != nil {
				results[i].Err = err
			} else {
				batch, at = append(batch, a), append(at, i)
			}
		default:
			alone = append(alone, i)
		}
	}
	if len(batch) > 0 {
		p.oneStep.EnqueueAll(ctx, batch)
	}
	for j, a := range batch {
		r := &results[at[j]]
		switch {
		case a.Err != nil:
			r.Err = fmt.Errorf("enqueue: %w", a.Err)
		case a.Conflict:
			r.Err = ErrConflict
		case a.State == ledger.Accepting:
			alone = append(alone, at[j])
		default:
			r.Known = a.State != ""
		}
	}
	p.enqueueEach(ctx, notifications, alone, results)
	return results
}

// together is how many notifications are enqueued side by side that take more
// than one step.
const together = 16

// enqueueEach enqueues the notifications of these indices one by one, each
// user's in order.
func (p *Producer) enqueueEach(ctx context.Context, notifications []*Notification, indices []int, results []Result) {
	var lines [together][]int
	for _, i := range indices {
		h := fnv.New32a()
		_, _ = h.Write([]byte(notifications[i].User))
		line := &lines[h.Sum32()%together]
		*line = append(*line, i)
	}
	var wg sync.WaitGroup
	for _, line := range lines {
		if len(line) == 0 {
			continue
		}
		wg.Go(func() {
			for at, i := range line {
				n := *notifications[i]
				n.ID = results[i].ID
				r, err := p.Enqueue(ctx, &n)
				results[i] = Result{r, err}
				if err != nil && !errors.Is(err, ErrConflict) && !errors.As(err, new(Faults)) {
					// Redis is away: the others would wait for it one after another
					for _, j := range line[at+1:] {
						results[j].Err = err
					}
					return
				}
			}
		})
	}
	wg.Wait()
}
