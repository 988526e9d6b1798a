package operate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/clock"
)

const (
	// What a worker has in its hands is tried again, so often and after so long.
	underWayTries = 3
	underWayPause = time.Second
)

// An Outcome is what became of one of several, from a closed set.
type Outcome string

// The outcomes. What failed may be asked for again.
const (
	Done     Outcome = "done"
	Unknown  Outcome = "unknown"
	Ended    Outcome = "ended"
	UnderWay Outcome = "under_way"
	Failed   Outcome = "failed"
)

// OutcomeOf returns what an error says became of it.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Done
	case errors.Is(err, push.ErrUnknownID), errors.Is(err, ledger.ErrNoLetter):
		return Unknown
	case errors.Is(err, push.ErrEnded):
		return Ended
	case errors.Is(err, push.ErrUnderWay), errors.Is(err, push.ErrStillThere):
		return UnderWay
	}
	return Failed
}

// A Bulk is what became of many.
type Bulk struct {
	Selected int `json:"selected"`
	Done     int `json:"done"`
	// Gone had ended, or was gone, before its turn came.
	Gone int `json:"gone"`
	// UnderWay is in a worker's hands.
	UnderWay int `json:"under_way"`
	Failed   int `json:"failed"`
}

// InPages has f act on the IDs, and returns what became of them, and the first
// error. It stops after the page in which ctx ends.
func InPages(ctx context.Context, ids []string, f func(context.Context, []string) []error) (b Bulk, first error) {
	b.Selected = len(ids)
	for try := 1; len(ids) > 0; try++ {
		var again []string
		for page := range slices.Chunk(ids, MostIDs) {
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
		if ids = again; try == underWayTries {
			break
		}
		if len(ids) > 0 {
			_ = clock.Sleep(ctx, underWayPause) // the next page notices the end of ctx
		}
	}
	b.UnderWay = len(ids)
	return b, first
}
