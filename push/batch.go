package push

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/store"
)

// A Result is the result of one notification of EnqueueAll.
type Result struct {
	Receipt
	// Err is the error that Enqueue would return.
	Err error
}

// EnqueueAll enqueues many notifications, each independently, in one round trip, and a further round trip
// for each expired one. A user's notifications stay in order. The results are in the order of the
// notifications. The caller must not change notifications during the call.
func (p *Producer) EnqueueAll(ctx context.Context, notifications []*Notification) []Result {
	results := make([]Result, len(notifications))
	now := time.Now()
	var batch []*store.Acceptance
	var at []int   // the index in notifications of each in batch
	var away error // Redis does not answer: the next expired notification would wait for the same time-out
	_, lost := p.records.All(ctx)
	if lost != nil { // the notifications' shards are unknown
		lost = p.refused(ctx, lost)
	}
	for i, n := range notifications {
		accepted, err := p.complete(n, now)
		r := &results[i]
		*r = Result{Receipt{ID: accepted.ID}, err}
		if err == nil && lost != nil {
			r.Err = lost
		} else if err == nil && accepted.overdue(now) {
			if r.Err = away; away == nil {
				r.Err = p.known(ctx, &accepted)
			}
			var reply redis.Error
			if r.Err != nil && !errors.As(r.Err, new(Faults)) && !errors.As(r.Err, &reply) {
				away = r.Err
			}
		}
		if r.Err != nil {
			continue
		}
		var a *store.Acceptance
		if a, r.Err = p.acceptance(ctx, &Job{Notification: &accepted, AcceptedAt: p.accepted.next()}); r.Err == nil {
			batch, at = append(batch, a), append(at, i)
		}
	}
	if len(batch) > 0 {
		p.acceptor.EnqueueAll(ctx, batch)
	}
	for j, a := range batch {
		r := &results[at[j]]
		switch {
		case a.Err != nil:
			r.Err = p.refused(ctx, a.Err)
		case a.Conflict:
			r.Err = ErrConflict
		default:
			r.Known = a.State != ""
		}
	}
	return results
}
