package operate

import (
	"context"
	"log/slog"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/pushpace/pushpace/push"
)

const (
	// MostIDs bounds the IDs of one request, so that the request ends within its time.
	MostIDs = 1000
	// idsAtOnce is the number of IDs that are processed in parallel.
	idsAtOnce = 16
)

// each calls do for each ref, if the principal may take the action, and returns the errors.
func (o *Operator) each(ctx context.Context, a *Action, refs []push.Ref, do func(context.Context, push.Ref) error) []error {
	return o.eachBatch(ctx, a, refs, func(ctx context.Context, refs []push.Ref) ([]error, int) {
		return inParallel(len(refs), func(i int) error { return do(ctx, refs[i]) }), 0
	})
}

// inParallel calls do for 0 to n-1, idsAtOnce in parallel, and returns the errors.
func inParallel(n int, do func(i int) error) []error {
	errs := make([]error, n)
	var g errgroup.Group
	g.SetLimit(idsAtOnce)
	for i := range n {
		g.Go(func() error {
			errs[i] = do(i)
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	return errs
}

// eachBatch is each with one call for all refs, which also returns with how many others it was
// done.
func (o *Operator) eachBatch(ctx context.Context, a *Action, refs []push.Ref, do func(context.Context, []push.Ref) (errs []error, others int)) []error {
	if err := o.may(a); err != nil {
		return slices.Repeat([]error{err}, len(refs))
	}
	errs, others := do(ctx, refs)
	var done []push.Ref
	var failed error
	for i, err := range errs {
		switch OutcomeOf(err) {
		case Done:
			done = append(done, refs[i])
		case Failed:
			failed = err
		}
	}
	entry := o.entryOn(ctx, done)
	entry.Count += others
	more := []slog.Attr{slog.Int("count", entry.Count)}
	if failed != nil {
		more = append(more, slog.String("cause", Cause(failed)))
	}
	o.did(ctx, a, entry, more...)
	return errs
}
