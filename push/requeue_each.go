package push

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// requeuesAtOnce is how many dead letters are requeued at once.
const requeuesAtOnce = 16

// RequeueEach requeues dead letters, and answers what became of each: nil, or
// what Requeue answers. Calling it again for those that failed is safe.
func (p *Producer) RequeueEach(ctx context.Context, ids []string) []error {
	errs := make([]error, len(ids))
	var g errgroup.Group
	g.SetLimit(requeuesAtOnce)
	for i, id := range ids {
		g.Go(func() error {
			errs[i] = p.Requeue(ctx, id)
			return nil
		})
	}
	_ = g.Wait() // each has its own
	return errs
}
