package operate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/clock"
)

const (
	// InPages tries a notification that is in flight underWayTries times, underWayPause apart.
	underWayTries = 3
	underWayPause = time.Second
)

// An Outcome is the result for one of several items, from a closed set.
type Outcome string

// The outcomes. A failed item may be tried again.
const (
	Done     Outcome = "done"
	Unknown  Outcome = "unknown"
	Ended    Outcome = "ended"
	UnderWay Outcome = "under_way"
	// Ambiguous means that several users have the ID, and the ref does not name one of them.
	Ambiguous Outcome = "ambiguous"
	Failed    Outcome = "failed"
)

// OutcomeOf returns the outcome of an item with this error.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Done
	case errors.Is(err, push.ErrUnknownID), errors.Is(err, store.ErrNoLetter):
		return Unknown
	case errors.Is(err, push.ErrEnded):
		return Ended
	case errors.Is(err, push.ErrUnderWay), errors.Is(err, push.ErrStillThere):
		return UnderWay
	case errors.Is(err, push.ErrAmbiguous):
		return Ambiguous
	}
	return Failed
}

// A Bulk counts the outcomes of many items.
type Bulk struct {
	Selected int `json:"selected"`
	Done     int `json:"done"`
	// Gone items had ended, or did not exist, when their turn came.
	Gone int `json:"gone"`
	// UnderWay items were still in flight at the last try.
	UnderWay int `json:"under_way"`
	Failed   int `json:"failed"`
}

// InPages calls f for pages of the refs, each user's refs together. It returns the counts and the
// first error. It stops after the page in which ctx ends; the remaining refs count as failed.
func InPages(ctx context.Context, refs []push.Ref, f func(context.Context, []push.Ref) []error) (b Bulk, first error) {
	b.Selected = len(refs)
	for try := 1; len(refs) > 0; try++ {
		var again []push.Ref
		for _, page := range pages(refs) {
			if ctx.Err() != nil {
				b.Failed += len(page)
				first = cmp.Or(first, ctx.Err())
				continue
			}
			for i, err := range f(ctx, page) {
				switch OutcomeOf(err) {
				case Done:
					b.Done++
				case Ended, Unknown:
					b.Gone++
				case UnderWay:
					again = append(again, page[i])
				default:
					b.Failed++
					first = cmp.Or(first, err)
				}
			}
		}
		if refs = again; try == underWayTries {
			break
		}
		if len(refs) > 0 {
			_ = clock.Sleep(ctx, underWayPause) // the next page notices the end of ctx
		}
	}
	b.UnderWay = len(refs)
	return b, first
}

// pages divides refs into calls of at most MostIDs. A user's refs keep their order and share a
// call if they fit into one, so that no notification moves up before the next call cancels it.
func pages(refs []push.Ref) (all [][]push.Ref) {
	refs = slices.Clone(refs)
	slices.SortStableFunc(refs, func(a, b push.Ref) int {
		return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.User, b.User))
	})
	for len(refs) > 0 {
		end := min(MostIDs, len(refs))
		for cut := end; end < len(refs) && cut > 0; cut-- {
			if a, b := refs[cut-1], refs[cut]; a.App != b.App || a.User != b.User {
				end = cut
				break
			}
		}
		all, refs = append(all, refs[:end]), refs[end:]
	}
	return all
}
