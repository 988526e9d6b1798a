// Package several acts on several notifications or dead letters in one request.
package several

import (
	"context"

	"golang.org/x/sync/errgroup"
)

const (
	// Most is how many IDs one request may name, so that it ends within its time.
	Most = 100
	// atOnce is how many are acted on at once.
	atOnce = 16
)

// Each calls f with each ID, and answers what it answered for each.
func Each(ctx context.Context, ids []string, f func(ctx context.Context, id string) error) []error {
	errs := make([]error, len(ids))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, id := range ids {
		g.Go(func() error {
			errs[i] = f(ctx, id)
			return nil
		})
	}
	_ = g.Wait() // each has its own
	return errs
}
