package push

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/pipeline"
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
	var batch []*acceptance
	var alone []int
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
				a.index = i
				batch = append(batch, a)
			}
		default:
			alone = append(alone, i)
		}
	}
	p.enqueueTogether(ctx, batch)
	for _, a := range batch {
		r := &results[a.index]
		switch {
		case a.err != nil:
			r.Err = fmt.Errorf("enqueue: %w", a.err)
		case a.conflict:
			r.Err = ErrConflict
		case a.state == accepting:
			alone = append(alone, a.index)
		default:
			r.Known = a.state != ""
		}
	}
	p.enqueueEach(ctx, notifications, alone, results)
	return results
}

// enqueueTogether enqueues the notifications in one round trip.
func (p *Producer) enqueueTogether(ctx context.Context, batch []*acceptance) {
	if len(batch) == 0 {
		return
	}
	var batches []*acceptances // of each queue in the order of the notifications
	open := make(map[string]*acceptances)
	for _, a := range batch {
		s := open[a.queue]
		if s == nil {
			if err := p.oneStep.announce(ctx, a.queue); err != nil {
				for _, a := range batch {
					a.err = err
				}
				return
			}
		}
		if s == nil || len(s.all) == acceptancesMost {
			s = &acceptances{oneStep: p.oneStep}
			open[a.queue], batches = s, append(batches, s)
		}
		s.all = append(s.all, a)
	}
	pipe := p.records.client.Pipeline()
	cmds := make([]*redis.Cmd, len(batches))
	for i, s := range batches {
		cmds[i] = s.Command(ctx)
		_ = pipe.Process(ctx, cmds[i]) // which keeps it
	}
	_, _ = pipeline.Exec(ctx, pipe) // each command has its own error
	for i, s := range batches {
		errs, err := s.Read(ctx, cmds[i])
		for i, a := range s.all {
			if a.err = err; err == nil {
				a.err = errs[i]
			}
		}
	}
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
