package worker

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// cancelsAtOnce is how many notifications are cancelled at once.
const cancelsAtOnce = 16

// CancelEach cancels notifications, and answers what became of each: nil, or
// what Cancel answers. Calling it again for those that failed is safe.
func (c *Control) CancelEach(ctx context.Context, ids []string) []error {
	errs := make([]error, len(ids))
	var g errgroup.Group
	g.SetLimit(cancelsAtOnce)
	for i, id := range ids {
		g.Go(func() error {
			errs[i] = c.Cancel(ctx, id)
			return nil
		})
	}
	_ = g.Wait() // each has its own
	return errs
}
